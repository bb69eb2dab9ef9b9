"""The ops, one module per family; `dovetail_opset.families` lists the ops of each module."""
