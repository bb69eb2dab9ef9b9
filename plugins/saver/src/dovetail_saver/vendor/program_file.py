"""The files of an exported program."""

from __future__ import annotations

from typing import IO

from dovetail.csource.literals import element_type
from dovetail.csource.literals import text as text_literal
from dovetail.csource.structs import SIZES
from dovetail.ir import Blob, DType

_BEGIN = """\
// A session of QNN's API: the calls in their order. Their data are in the file that main opens.
// Build it with the headers of QNN's SDK, link or load the library of a backend, and run it in the
// folder of that file.

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "QnnInterface.h"

// Makes a call unless one before has failed. What a backend does not support is no failure.
#define VALIDATE(result, call) \\
   do { \\
      if ((result) == QNN_SUCCESS || (result) == QNN_COMMON_ERROR_NOT_SUPPORTED) { \\
         (result) = (call); \\
         if ((result) != QNN_SUCCESS) { \\
            fprintf(stderr, "line %d: error %u\\n", __LINE__, (unsigned int)(result)); \\
         } \\
      } \\
   } while (0)

int main(void) {
   Qnn_ErrorHandle_t error = QNN_SUCCESS;

   FILE* fp = fopen(PAYLOADS, "rb");
   if (!fp) {
      fprintf(stderr, "cannot open the file of the data\\n");
      return 1;
   }

   const QnnInterface_t** providers = NULL;
   uint32_t providerCount = 0;
   VALIDATE(error, QnnInterface_getProviders(&providers, &providerCount));
   if (error != QNN_SUCCESS || providerCount == 0) {
      return 1;
   }
   QNN_INTERFACE_VER_TYPE interface = providers[0]->QNN_INTERFACE_VER_NAME;
"""
_END = """
   fclose(fp);
   return error == QNN_SUCCESS || error == QNN_COMMON_ERROR_NOT_SUPPORTED ? 0 : 1;
}
"""


class ProgramFile:
    """Writes the text of a program, and its payloads; each payload once.

    Args:
        text: The file of the program.
        payloads: The file of the payloads.
        payloads_name: Its name, as the program opens it.
    """

    def __init__(self, text: IO[bytes], payloads: IO[bytes], payloads_name: str) -> None:
        self._text = text
        self._payloads = payloads
        self._read: dict[str, str] = {}  # variables by the hash of their content
        self._arrays = 0
        self._text.write(_BEGIN.replace("PAYLOADS", text_literal(payloads_name)).encode())

    def line(self, text: str = "") -> None:
        """Write a line of `main`."""
        self._text.write(f"   {text}\n".encode() if text else b"\n")

    def finish(self) -> None:
        """Write the end of the program."""
        self._text.write(_END.encode())

    def array(self, dtype: DType, nbytes: int, data: Blob | None) -> str:
        """Return a variable with some bytes.

        Args:
            dtype: Type of the elements.
            nbytes: How many bytes there are.
            data: The bytes; None for an array that is not read.
        """
        if data is not None and data.hash in self._read:
            return self._read[data.hash]
        name, kind = f"data_{self._arrays}", element_type(dtype)
        self._arrays += 1
        size = SIZES[kind.encode()]
        kind, size = (kind, size) if nbytes % size == 0 else ("uint8_t", 1)
        count = nbytes // size
        self.line(f"static {kind} {name}[{max(count, 1)}];")  # C has no empty arrays
        if data is not None:
            self.line(f"fread({name}, {size}, {count}, fp);")
            self._payloads.write(data.bytes.data)
            self._read[data.hash] = name
        return name
