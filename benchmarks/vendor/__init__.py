"""Our integer definitions and the vendor's HTP simulator on the same quantized networks."""
