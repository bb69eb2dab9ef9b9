// A row is reduced by the GROUP items of a work group, or by one item where GROUP is 1. ROW is its
// number and LANE that of the item in it; there are no items without a row. (A return before a
// barrier, though all items of a group take it, is compiled wrongly by PoCL.) SHARED declares local
// memory of a kernel for JOIN, which joins the values `v` of all items by the macro MERGE(V, a, b)
// and sets `v` to the result in each.

#if GROUP == 1
#define ROW get_global_id(0)
#define LANE 0
#define SHARED(V, name)
#define JOIN(V, v, name, MERGE)
#else
#define ROW get_group_id(0)
#define LANE get_local_id(0)
#define SHARED(V, name) __local V name[GROUP]
#define JOIN(V, v, name, MERGE) \
  { \
    name[LANE] = v; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    for (int half_ = GROUP / 2; half_ > 0; half_ /= 2) { \
      if (LANE < half_) name[LANE] = MERGE(V, name[LANE], name[LANE + half_]); \
      barrier(CLK_LOCAL_MEM_FENCE); \
    } \
    v = name[0]; \
    barrier(CLK_LOCAL_MEM_FENCE); \
  }
#endif

#define ADD(V, a, b) ((a) + (b))
#define LARGER(V, a, b) select(a, b, ((b) > (a)) | ((b) != (b)))
#define SMALLER(V, a, b) select(a, b, ((b) < (a)) | ((b) != (b)))
#define MULTIPLY(V, a, b) ((a) * (b))

// Joins the elements of a vector.
#define FOLD(MERGE, v) \
  MERGE(float, MERGE(float, MERGE(float, v.s0, v.s4), MERGE(float, v.s1, v.s5)), \
        MERGE(float, MERGE(float, v.s2, v.s6), MERGE(float, v.s3, v.s7)))

// Calls BODY(V, LOAD_V, STORE_V, at, i) for all elements of a row: `pieces` of `length` elements,
// `step` apart; `at` is the index in memory and `i` the one in the piece. A processor takes eight
// elements at once, in order; items of a group take one each, next to each other.
#if GROUP == 1
#define EACH(BODY, base, pieces, length, step) \
  for (int piece_ = 0; piece_ < (pieces); piece_++) { \
    const int start_ = (base) + piece_ * (step); \
    int i_ = 0; \
    for (; i_ + 8 <= (length); i_ += 8) BODY(float8, LOAD8, STORE8, start_ + i_, i_) \
    for (; i_ < (length); i_++) BODY(float, LOAD, STORE, start_ + i_, i_) \
  }
#else
#define EACH(BODY, base, pieces, length, step) \
  for (int t_ = LANE; t_ < (pieces) * (length); t_ += GROUP) { \
    const int piece_ = t_ / (length), i_ = t_ - piece_ * (length); \
    BODY(float, LOAD, STORE, (base) + piece_ * (step) + i_, i_) \
  }
#endif
