/* The two backends of this folder, exported by module.c. Each is complete in its own file and uses
 * nothing of the runtime except executorch_c/backend.h. */
#ifndef DEMO_H
#define DEMO_H

#include "executorch_c/backend.h"

/* "BackendWithCompilerDemo": runs the text written by the export side's demo compiler. */
extern const ec_backend demo_compiler_backend;

/* "ExecutorBackend": the payload is a whole .pte, run by the runtime itself. */
extern const ec_backend demo_executor_backend;

#endif
