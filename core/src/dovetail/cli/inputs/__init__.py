"""Raw inputs of commands: lists of files, what the files hold, and which make up an inference."""
