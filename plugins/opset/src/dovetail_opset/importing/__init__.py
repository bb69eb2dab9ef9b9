"""The library of importers of any format, which build graphs of the standard op set.

| module | content |
|---|---|
| `constant` | values known at import, and their union with tensors of the graph |
| `values` | the tensors of a model by name: constants become static tensors when they are used |
| `context` | the argument of an importer: a node's inputs and outputs, and methods that emit ops |
| `inputs`, `options` | shapes of inputs from a file's dimensions and the user's options |
| `outputs` | outputs of the model as outputs of the graph |
| `layout` | channels-last ops for channels-first tensors, broadcasting |
| `windows`, `dilated` | sliding windows and their padding |
| `indices` | 64-bit indices in 32 bits |
| `budget` | limits of computation at import |
| `problems` | unsupported and invalid nodes, grouped by reason |
| `transposition` | large constants in another layout |
"""
