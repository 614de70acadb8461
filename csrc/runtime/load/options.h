/* Options of a method for the backends of its delegates. */
#ifndef EC_RUNTIME_LOAD_OPTIONS_H
#define EC_RUNTIME_LOAD_OPTIONS_H

#include "runtime/native.h"

/* Copies the options of the method's backends to its arena. InvalidArgument if no delegate has the
 * backend of an option. */
ec_status ec_load_options(ec_method *m, const ec_rows *rows, ec_error *err);

/* Sets the options of a delegate. NotSupported if its backend predates options. */
ec_status ec_delegate_options(const ec_method *m, ec_delegate *d, ec_error *err);

#endif
