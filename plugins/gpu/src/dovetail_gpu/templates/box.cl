// Common to moves of boxes: y[base_y + sum i_k * step_y_k] = x[base_x + sum i_k * step_x_k].
// E is an unsigned integer of the elements' width. The three innermost axes are arguments: planes,
// rows and columns; the others are in `axes`: for each, the last first, size, step in x and in y. A
// work item copies a block of at most `thick` planes, `tall` rows and `wide` columns.

#define E8 VECTOR(E, 8)
typedef E8 __attribute__((aligned(E_BYTES))) packed_e8;
#define GET8(p) (*(__global const packed_e8 *)(p))
#define PUT8(v, p) (*(__global packed_e8 *)(p) = (v))

typedef struct {
  int x, y;
} Position;

static Position position(__global const int *axes, int count, int index, int x, int y) {
  Position at = {x, y};
  for (int k = 0; k < count; k++, axes += 3) {
    const int size = axes[0];
    const int i = index % size;
    index /= size;
    at.x += i * axes[1];
    at.y += i * axes[2];
  }
  return at;
}

static void copy_run(__global const E *restrict x, __global E *restrict y, int count) {
  int i = 0;
  for (; i + 8 <= count; i += 8) PUT8(GET8(x + i), y + i);
  for (; i < count; i++) y[i] = x[i];
}

#define BOX_PARAMETERS                                                                            \
  TENSOR_IN(E, x), TENSOR_OUT(E, y), TENSOR_IN(int, axes), int count, int outer, int base_x,      \
      int base_y, int depth, int height, int width, int plane_x, int step_x, int column_x,        \
      int plane_y, int step_y, int column_y, int thick, int tall, int wide

// Begins a kernel with BOX_PARAMETERS: the block of item ITEM is planes front..back, rows
// top..bottom and columns left..right at x and y. Items after the last have no planes.
#define BOX_BLOCK(ITEM)                                                                           \
  TENSOR_READ(E, x);                                                                              \
  TENSOR_WRITE(E, y);                                                                             \
  TENSOR_READ(int, axes);                                                                         \
  const int across = (width + wide - 1) / wide, down = (height + tall - 1) / tall;                \
  const int deep = (depth + thick - 1) / thick;                                                   \
  int item = ITEM;                                                                                \
  const int left = item % across * wide, right = min(left + wide, width);                         \
  item /= across;                                                                                 \
  const int top = item % down * tall, bottom = min(top + tall, height);                           \
  item /= down;                                                                                   \
  const int front = item % deep * thick;                                                          \
  item /= deep;                                                                                   \
  const int back = item < outer ? min(front + thick, depth) : 0;                                  \
  const Position at = position(axes, count, item, base_x, base_y);                                \
  x += at.x;                                                                                      \
  y += at.y

#define EACH_PLANE for (int p = front; p < back; p++)
#define EACH_ROW EACH_PLANE for (int i = top; i < bottom; i++)
