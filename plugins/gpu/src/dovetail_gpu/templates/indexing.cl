// Slices by index. An index below 0 counts from the end; one out of range is clamped, so that
// nothing outside the tensors is read or written.

static int counted(int index, int size) {
  return clamp(index < 0 ? index + size : index, 0, size - 1);
}

// The number of the slice that a row of `depth` indices selects; `sizes` are those of the axes.
static int selected(__global const int *index, __global const int *sizes, int depth) {
  int at = 0;
  for (int k = 0; k < depth; k++) at = at * sizes[k] + counted(index[k], sizes[k]);
  return at;
}

// y[o, r, :] = x[o, selected(index[o or 0, r]), :]; slices have `inner` elements.
__kernel void take(TENSOR_IN(E, x), TENSOR_OUT(E, y), TENSOR_IN(int, index), TENSOR_IN(int, sizes),
                   int depth, int outer, int rows, int inner, int slices, int outer_index, int tall,
                   int wide) {
  TENSOR_READ(E, x);
  TENSOR_WRITE(E, y);
  TENSOR_READ(int, index);
  TENSOR_READ(int, sizes);
  const int across = (inner + wide - 1) / wide;
  const int item = get_global_id(0);
  const int left = item % across * wide, right = min(left + wide, inner);
  const int first = item / across * tall, last = min(first + tall, outer * rows);
  for (int i = first; i < last; i++) {
    const int o = i / rows, r = i - o * rows;
    const int at = o * slices + selected(index + (o * outer_index + r * depth), sizes, depth);
    copy_run(x + (at * inner + left), y + (i * inner + left), right - left);
  }
}

// y = x at an index along one axis, whose step in x is `stride`, and elsewhere at y's own position.
__kernel void take_elements(BOX_PARAMETERS, TENSOR_IN(int, index), int size, int stride) {
  TENSOR_READ(int, index);
  BOX_BLOCK;
  index += at.y;
  for (int i = top; i < bottom; i++)
    for (int j = left; j < right; j++) {
      const int to = i * step_y + j * column_y;
      y[to] = x[i * step_x + j * column_x + counted(index[to], size) * stride];
    }
}
