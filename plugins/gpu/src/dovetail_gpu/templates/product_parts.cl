// The sum of the parts of a product; see product_local.cl. Each is a matrix (positions, columns).

// count: elements of y; columns: of a line of y.
__kernel void add_parts(TENSOR_IN(float, sums), TENSOR_OUT(S, y), int count, int columns,
                        int parts STAGE_PARAMETERS) {
  TENSOR_READ(float, sums);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int at = get_global_id(0);
  if (at >= count) return;
  const int channel = at % columns;
  float result = 0.0f;
  for (int part = 0; part < parts; part++) result += sums[(long)part * count + at];
  STAGES(float, LOAD, result, at, channel);
  STORE(result, y + at);
}
