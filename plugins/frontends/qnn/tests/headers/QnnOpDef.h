// The tests' own header: model.cpp includes one of this name.
