"""The elements and attributes of a file of op definitions."""

from __future__ import annotations

# Children of each element: True if repeatable.
CHILDREN: dict[str, dict[str, bool]] = {
    "OpDefCollection": {"OpDefList": True, "SupplementalOpDefList": True},
    "OpDefList": {"OpDef": True},
    "OpDef": {
        "Name": False,
        "Description": False,
        "Reference": True,
        "Input": True,
        "Output": True,
        "Parameter": True,
        "UseDefaultTranslation": False,
        "SupportedBackend": True,
    },
    "Description": {"Content": False, "Code": False},
    "Input": {
        "Name": False,
        "Description": False,
        "Mandatory": False,
        "Constraint": True,
        "Datatype": True,
        "Shape": False,
        "Default": False,
        "Repeated": False,
        "IsStaticTensor": False,
    },
    "Parameter": {
        "Name": False,
        "Description": False,
        "Mandatory": False,
        "Datatype": True,
        "Shape": False,
        "Constraint": True,
        "Default": False,
        "Enumeration": False,
    },
    "Shape": {"Rank": False, "Layout": False, "Text": False},
    "Enumeration": {"Enum": True},
    "SupplementalOpDefList": {"SupportedOps": False, "SupplementalOpDef": True},
    "SupportedOps": {"OpName": True},
    "SupplementalOpDef": {"Name": False, "Input": True, "Output": True, "Parameter": True},
}
CHILDREN["Output"] = CHILDREN["Input"]
SUPPLEMENT_PORT = {
    "Name": False,
    "Constraint": True,
    "Datatype": True,
    "Shape": False,
    "OnlyDefaultSupported": False,
}
ATTRIBUTES = {
    "OpDefCollection": {"PackageName", "Domain", "Version", "noNamespaceSchemaLocation"},
    "Reference": {"Source", "Url"},
    "Constraint": {"id", "Type"},
    "SupplementalOpDefList": {"Backend"},
}
