"""Resampling of images: resize, crops, patches, samples on a grid."""
