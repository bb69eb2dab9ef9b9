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
  for (int i = first; i < last;) {
    const int o = i / rows, begin = i - o * rows, n = min(rows - begin, last - i);
    __global const E *from = x + (o * slices * inner + left);
    __global E *to = y + (i * inner + left);
    __global const int *row = index + (o * outer_index + begin * depth);
    if (inner == 1 && depth == 1) {
      for (int r = 0; r < n; r++) to[r] = from[counted(row[r], slices)];
    } else {
      for (int r = 0; r < n; r++)
        copy_run(from + selected(row + r * depth, sizes, depth) * inner, to + r * inner,
                 right - left);
    }
    i += n;
  }
}

// y = x at an index along one axis, whose step in x is `stride`, and elsewhere at y's own position.
__kernel void take_elements(BOX_PARAMETERS, TENSOR_IN(int, index), int size, int stride) {
  TENSOR_READ(int, index);
  BOX_BLOCK(get_global_id(0));
  index += at.y;
  EACH_ROW for (int j = left; j < right; j++) {
    const int to = p * plane_y + i * step_y + j * column_y;
    y[to] = x[p * plane_x + i * step_x + j * column_x + counted(index[to], size) * stride];
  }
}
