// Copies elements to other positions, and fills gaps with zeros.

// Columns of matrices in blocks: y[i][g][b][k][j] = x[i][k][g * columns + b * block + j], where x[i]
// begins at i * x_matrix, k steps by x_row and columns by x_column; zero beyond `columns`.
__kernel void blocks(TENSOR_IN(S, x), TENSOR_OUT(S, y), int count, int depth, int columns,
                     int blocks_of, int groups, int block, int x_matrix, int x_row, int x_column) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  const int at = get_global_id(0);
  if (at >= count) return;
  const int j = at % block, k = at / block % depth, rest = at / block / depth;
  const int b = rest % blocks_of, g = rest / blocks_of % groups, i = rest / blocks_of / groups;
  const int column = b * block + j;
  const bool inside = column < columns;
  const long from = (long)i * x_matrix + (long)k * x_row + (long)(g * columns + column) * x_column;
  STORE(inside ? LOAD(x + (inside ? from : 0)) : 0.0f, y + at);
}

// Zeros around lines: y[i][l] of `width` elements is x[i][l - before] of `x_width`.
__kernel void pad(TENSOR_IN(S, x), TENSOR_OUT(S, y), int count, int width, int x_width,
                  int before) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  const int at = get_global_id(0);
  if (at >= count) return;
  const int line = at / width, l = at - line * width - before;
  const bool inside = l >= 0 && l < x_width;
  STORE(inside ? LOAD(x + (inside ? (long)line * x_width + l : 0)) : 0.0f, y + at);
}
