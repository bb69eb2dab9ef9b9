"""Regions of interest: features cut out, proposals made and distributed."""
