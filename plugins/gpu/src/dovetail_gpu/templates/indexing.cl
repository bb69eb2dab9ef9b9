// Slices by index. Follows box.cl and counted.cl.

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

// y[i, :] = x at the i-th index within range; 0 in the rows that remain.
__kernel void permute_batch(TENSOR_IN(E, x), TENSOR_OUT(E, y), TENSOR_IN(int, index), int rows,
                            int batch, int inner) {
  TENSOR_READ(E, x);
  TENSOR_WRITE(E, y);
  TENSOR_READ(int, index);
  const int i = get_global_id(0);
  if (i >= rows) return;
  int from = -1;
  for (int k = 0, found = 0; k < rows && found <= i; k++)
    if (index[k] >= 0 && index[k] < batch) {
      if (found == i) from = index[k];
      found++;
    }
  if (from >= 0)
    copy_run(x + from * inner, y + i * inner, inner);
  else
    for (int j = 0; j < inner; j++) y[i * inner + j] = 0;
}

// y[o, d, i] = values[0] where index[o, i] is d, and values[1] elsewhere.
__kernel void one_hot(TENSOR_IN(int, index), TENSOR_OUT(E, y), TENSOR_IN(E, values), int outer,
                      int depth, int inner, int is_signed) {
  TENSOR_READ(int, index);
  TENSOR_WRITE(E, y);
  TENSOR_READ(E, values);
  const int item = get_global_id(0), o = item / depth, d = item % depth;
  if (o >= outer) return;
  const E on = values[0], off = values[1];
  for (int i = 0; i < inner; i++) {
    const int given = index[o * inner + i];
    const int wanted = is_signed && given < 0 ? given + depth : given;
    y[item * inner + i] = wanted == d ? on : off;
  }
}
