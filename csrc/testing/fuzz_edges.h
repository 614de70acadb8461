/* Edges of the control flow that an input takes, in builds with gcc's
 * -fsanitize-coverage=trace-pc. */
#ifndef EC_TESTING_FUZZ_EDGES_H
#define EC_TESTING_FUZZ_EDGES_H

/* Forgets all edges. */
void ec_fuzz_edges_clear(void);
/* Appends the edges since then to a file: their number and, in ascending order, themselves, each as
 * 32 bits. Exits with 2 on failure. */
void ec_fuzz_edges_append(const char *path);

#endif
