// Copies of boxes. Follows box.cl.

// Both have contiguous columns.
__kernel void copy_runs(BOX_PARAMETERS) {
  BOX_BLOCK(get_global_id(0));
  EACH_ROW copy_run(x + (p * plane_x + i * step_x + left), y + (p * plane_y + i * step_y + left),
                    right - left);
}

// Only y has contiguous columns. The compiler makes vectors of steps that it knows.
__kernel void copy_into_runs(BOX_PARAMETERS) {
  BOX_BLOCK(get_global_id(0));
  EACH_ROW {
    __global const E *from = x + (p * plane_x + i * step_x + left * column_x);
    __global E *to = y + (p * plane_y + i * step_y + left);
    const int n = right - left;
    switch (column_x) {
      case 0: {
        const E value = from[0];
        for (int j = 0; j < n; j++) to[j] = value;
        break;
      }
      case 2:
        for (int j = 0; j < n; j++) to[j] = from[j * 2];
        break;
      case 3:
        for (int j = 0; j < n; j++) to[j] = from[j * 3];
        break;
      case 4:
        for (int j = 0; j < n; j++) to[j] = from[j * 4];
        break;
      default:
        for (int j = 0; j < n; j++) to[j] = from[j * column_x];
    }
  }
}

// Any steps.
__kernel void copy_elements(BOX_PARAMETERS) {
  BOX_BLOCK(get_global_id(0));
  EACH_ROW for (int j = left; j < right; j++)
    y[p * plane_y + i * step_y + j * column_y] = x[p * plane_x + i * step_x + j * column_x];
}

#define PART_PARAMETERS(x) TENSOR_IN(E, x), int x##_width
#define PART(x)                                                                                   \
  copy_run(x##_memory + x##_first + i * x##_width, to, x##_width);                                \
  to += x##_width

// Four matrices as columns of y from `column` on; y has `width` columns. A work item copies `tall`
// rows.
__kernel void join(PART_PARAMETERS(a), PART_PARAMETERS(b), PART_PARAMETERS(c), PART_PARAMETERS(d),
                   TENSOR_OUT(E, y), int column, int rows, int width, int tall) {
  TENSOR_WRITE(E, y);
  const int top = get_global_id(0) * tall, bottom = min(top + tall, rows);
  for (int i = top; i < bottom; i++) {
    __global E *to = y + (i * width + column);
    PART(a);
    PART(b);
    PART(c);
    PART(d);
  }
}
