// Indices. One below 0 counts from the end; one out of range is clamped, so that nothing outside
// the tensors is read or written.

static int counted(int index, int size) {
  return clamp(index < 0 ? index + size : index, 0, size - 1);
}

// The number of the slice that a row of `depth` indices selects; `sizes` are those of the axes.
static int selected(__global const int *index, __global const int *sizes, int depth) {
  int at = 0;
  for (int k = 0; k < depth; k++) at = at * sizes[k] + counted(index[k], sizes[k]);
  return at;
}
