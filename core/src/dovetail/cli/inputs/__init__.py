"""Raw inputs of commands: input lists, file formats, and the files of each inference."""
