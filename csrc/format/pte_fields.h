/* Constants for reading a program's tables: field ids, union types, enums. */
#ifndef EC_FORMAT_PTE_FIELDS_H
#define EC_FORMAT_PTE_FIELDS_H

/* Field ids EC_PTE_<Table>_<field> and union types, from program.def. */
enum {
#define EC_FB_PREFIX EC_PTE
#include "format/fields.h"
#include "format/program.def"
#undef EC_FB_PREFIX
};

/* Union KernelTypes. */
enum {
  EC_PTE_NULL = 1, EC_PTE_INT, EC_PTE_BOOL, EC_PTE_DOUBLE, EC_PTE_TENSOR, EC_PTE_STRING,
  EC_PTE_INT_LIST, EC_PTE_DOUBLE_LIST, EC_PTE_BOOL_LIST, EC_PTE_TENSOR_LIST,
  EC_PTE_OPTIONAL_TENSOR_LIST
};

/* Union InstructionArguments. */
enum { EC_PTE_KERNEL_CALL = 1, EC_PTE_DELEGATE_CALL, EC_PTE_MOVE_CALL, EC_PTE_JUMP_FALSE_CALL,
       EC_PTE_FREE_CALL };

/* Enum DataLocation of a delegate's payload. */
enum { EC_PTE_DATA_INLINE = 0, EC_PTE_DATA_SEGMENT = 1 };

#endif
