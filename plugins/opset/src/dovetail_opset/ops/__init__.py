"""The ops by family: a module each, which `dovetail_opset.families` lists with its ops."""
