/* kernels/: schemas of any text, and operators registered at run time. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/call.h"
#include "kernels/schema.h"
#include "testing/test.h"

static ec_status parse(const char *schema, ec_op *op, ec_error *err) {
  static char names[EC_MAX_SCHEMA + 2];
  return ec_schema_parse(schema, names, op, err);
}

void ec_test_schema_is_read(ec_test *t) {
  ec_op op;
  ec_error err = {0};
  EC_CHECK_OK(t, parse(" ns::a.out ( Tensor x)", &op, &err) == EC_OK ? EC_INTERNAL : EC_OK, &err);
  EC_CHECK_OK(t, parse("ns::sub::op.out(Tensor x, Tensor?[] i, int[2]? s=[1, 2], float f=-1e-3, "
                       "*, str m=\"a,)(\", ScalarType? dtype=None, Tensor(a!) out, "
                       "Tensor(b!)[] all) -> (Tensor(a!) y, Tensor(b!)[])", &op, &err), &err);
  EC_CHECK(t, strcmp(op.name, "ns::sub::op.out") == 0 && op.nargs == 8);
  EC_CHECK(t, op.args[1].is_list && op.args[1].item_optional && !op.args[1].optional);
  EC_CHECK(t, op.args[2].is_list && op.args[2].optional && !strcmp(op.args[2].name, "s"));
  EC_CHECK(t, op.args[3].type == EC_ARG_DOUBLE && !op.args[3].keyword);
  EC_CHECK(t, op.args[4].type == EC_ARG_STRING && op.args[4].keyword && !op.args[4].is_out);
  EC_CHECK(t, op.args[5].is_dtype && op.args[5].optional && op.args[5].type == EC_ARG_INT);
  EC_CHECK(t, op.args[6].is_out && op.args[7].is_out && op.args[7].is_list);
  EC_CHECK(t, op.returns == 2 && op.returned_outs == 2 && !op.returns_scalar);
  EC_CHECK_OK(t, parse("n::f(Tensor(a!) x, Tensor(b) y) -> SymInt", &op, &err), &err);
  EC_CHECK(t, op.args[0].written && !op.args[0].is_out && !op.args[1].written);
  EC_CHECK(t, op.returns_scalar);
}

void ec_test_schema_refuses(ec_test *t) {
  static const struct {
    const char *schema, *says;
  } wrong[] = {
      {"", "character 1 (the end): expected a name such as ns::name.out"},
      {"ns:x(Tensor a) -> ()", "character 3 (':x(Tensor a) -> ()'): expected a name"},
      {"ns::x.", "character 6"},
      {"ns::x.out", "character 10 (the end)"},
      {"ns::x.out()", "character 12 (the end): expected '->'"},
      {"ns::x.out() ->", "expected a type"},
      {"ns::x.out(Tensor x) -> Tensor y z", "character 33 ('z'): unexpected text"},
      {"ns::x.out(Tensor) -> ()", "character 17 (') -> ()'): expected an argument name"},
      {"ns::x.out(tensor x) -> ()", "type 'tensor' is not supported; types are Tensor, int"},
      {"ns::x.out(Dimname? g) -> ()", "type 'Dimname' is not supported"},
      {"ns::x.out(Tensor x Tensor y) -> ()", "character 20 ('Tensor y) -> ()'): expected ','"},
      {"ns::x.out(Tensor x, int x) -> ()", "two arguments are named 'x'"},
      {"ns::x.out(Tensor x, *, *, int y) -> ()", "a second '*'"},
      {"ns::x.out(Tensor(a! x) -> ()", "expected an alias such as (a!)"},
      {"ns::x.out(Tensor(!) x) -> ()", "expected an alias"},
      {"ns::x.out(int[2 x) -> ()", "character 14 ('[2 x) -> ()'): expected [] or [number]"},
      {"ns::x.out(Tensor[][] x) -> ()", "expected an argument name"},
      {"ns::x.out(int x=) -> ()", "expected a default value"},
      {"ns::x.out(int[] x=[1, 2) -> ()", "unexpected character in a default"},
      {"ns::x.out(int[] x=[1, 2", "expected a default value"},
      {"ns::x.out(str x=\"abc) -> ()", "the string is not terminated"},
      {"ns::x.out(int x=]) -> ()", "unexpected character in a default"},
      {"ns::x.out(Tensor x, ) -> ()", "expected a type"},
      {"ns::x.out(Tensor x) -> (Tensor", "expected ',' or ')'"},
  };
  ec_op op;
  ec_error err = {0};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    EC_CHECK_FAILS(t, parse(wrong[i].schema, &op, &err), &err, EC_INVALID_ARGUMENT, wrong[i].says);
}

void ec_test_schema_custom(ec_test *t) {
  static const struct {
    const char *schema, *says;
  } wrong[] = {
      {"ns::f(Tensor x) -> Tensor", "not an out variant"},
      {"ns::f(Tensor(a!) x) -> Tensor(a!)", "not an out variant"},
      {"f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", "has no namespace ('ns::f.out')"},
      {"ns::f.out(str[] x, *, Tensor(a!) out) -> Tensor(a!)", "'x' has a list type that programs"},
      {"ns::f.out(int?[] x, *, Tensor(a!) out) -> Tensor(a!)", "'x' has a list type that programs"},
      {"ns::f.out(*, int(a!) out) -> ()", "'out' is written, so it must be a Tensor"},
      {"ns::f.out(*, Tensor(a!)? out) -> ()", "'out' is written"},
      {"ns::f.out(*, Tensor(a!) out) -> Tensor", "it must return its 1 out argument, or ()"},
      {"ns::f.out(*, Tensor(a!) p, Tensor(b!) q) -> Tensor(a!)", "its 2 out arguments, or ()"},
  };
  ec_op op;
  ec_error err = {0};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    EC_CHECK_OK(t, parse(wrong[i].schema, &op, &err), &err);
    EC_CHECK_FAILS(t, ec_schema_check_custom(&op, &err), &err, EC_INVALID_ARGUMENT, wrong[i].says);
  }
}

/* Truncates, changes and enlarges a schema at every position: it is refused or parsed, without
 * overreads. */
void ec_test_schema_every_byte(ec_test *t) {
  static const char whole[] = "ns::op.out(Tensor x, Tensor?[] i, int[2]? s=[1, 2], *, "
                              "str m=\"a,)\", Tensor(a!) out) -> (Tensor(a!) y)";
  static const char bytes[] = "()[]?!*,=\"' >-:.\xff" "aZ9";
  ec_op op;
  ec_error err = {0};
  for (size_t i = 0; i < sizeof whole; i++)
    for (size_t b = 0; b < sizeof bytes; b++) { /* the last one, '\0', truncates */
      size_t n = bytes[b] ? sizeof whole : i + 1;
      char *schema = malloc(n), *names = malloc(n);
      memcpy(schema, whole, n);
      schema[i < sizeof whole - 1 || !bytes[b] ? i : 0] = bytes[b];
      if (ec_schema_parse(schema, names, &op, &err) != EC_OK)
        EC_CHECK(t, err.status == EC_INVALID_ARGUMENT && err.message[0]);
      free(schema);
      free(names);
    }
}

void ec_test_schema_limits(ec_test *t) {
  static char text[2 * EC_MAX_SCHEMA];
  ec_op op;
  ec_error err = {0};
  memset(text, 'a', sizeof text - 1);
  EC_CHECK_FAILS(t, parse(text, &op, &err), &err, EC_INVALID_ARGUMENT, "more than 8192");
  memcpy(text, "ns::", 4);
  memcpy(text + 300, "(Tensor x) -> ()", 17);
  EC_CHECK_FAILS(t, parse(text, &op, &err), &err, EC_INVALID_ARGUMENT,
                 "the name has 300 characters, at most 255");
  size_t n = (size_t)snprintf(text, sizeof text, "ns::f.out(int a");
  for (int i = 0; i < EC_MAX_OP_ARGS; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, ", int a%d", i);
  snprintf(text + n, sizeof text - n, ") -> ()");
  EC_CHECK_FAILS(t, parse(text, &op, &err), &err, EC_INVALID_ARGUMENT,
                 "more than 32 arguments are not supported");
}

/* ---- the registry ------------------------------------------------------------------------ */

static ec_status kernel(ec_call *c) {
  ++*(int *)c->op->user;
  return EC_OK;
}
static ec_status other_kernel(ec_call *c) { return ec_fail(c->err, EC_INTERNAL, "not called"); }

static void retain(void *user) { *(int *)user += 100; }
static void release(void *user) { *(int *)user -= 100; }
static bool is_user(void *user, void *arg) { return user == arg; }

static ec_op_def def(const char *schema, int *user) {
  return (ec_op_def){schema, "test", kernel, user, retain, release};
}

void ec_test_custom_lives(ec_test *t) {
  int user = 0, second = 0;
  ec_error err = {0};
  ec_op_def one = def("ns::x.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", &user);
  ec_op_def two = def(one.schema, &second);
  EC_CHECK_OK(t, ec_ops_init(&err), &err);
  EC_CHECK(t, !ec_op_exists("ns::x.out") && !ec_op_acquire("ns::x.out"));
  EC_CHECK_OK(t, ec_op_register(&one, false, &err), &err);
  EC_CHECK_FAILS(t, ec_op_register(&one, false, &err), &err, EC_REGISTRATION_EXISTS,
                 "operator ns::x.out is already registered (test)");
  EC_CHECK(t, user == 100 && ec_op_exists("ns::x.out"));
  const ec_op *op = ec_op_acquire("ns::x.out");
  EC_CHECK(t, user == 200 && op->custom && op->user == &user && !strcmp(op->origin, "test"));
  EC_CHECK_OK(t, ec_op_register(&two, true, &err), &err);
  const ec_op *newer = ec_op_acquire("ns::x.out");
  EC_CHECK(t, newer != op && newer->user == &second && second == 200);
  ec_op_release(newer);
  EC_CHECK_OK(t, ec_op_unregister("ns::x.out", &err), &err); /* the older one is restored */
  EC_CHECK(t, second == 0);
  newer = ec_op_acquire("ns::x.out");
  EC_CHECK(t, newer == op && user == 300);
  EC_CHECK_OK(t, ec_op_unregister("ns::x.out", &err), &err);
  EC_CHECK(t, user == 200 && !ec_op_exists("ns::x.out"));
  EC_CHECK_FAILS(t, ec_op_unregister("ns::x.out", &err), &err, EC_NOT_FOUND, "no operator");
  ec_call call = {.op = op, .err = &err};
  EC_CHECK_OK(t, op->fn(&call), &err); /* still valid */
  ec_op_release(op);
  ec_op_release(newer);
  EC_CHECK(t, user == 1);
}

void ec_test_custom_overrides(ec_test *t) {
  int user = 0;
  ec_error err = {0};
  EC_CHECK_OK(t, ec_ops_init(&err), &err);
  ec_op_def add = def("aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", &user);
  EC_CHECK_FAILS(t, ec_op_register(&add, false, &err), &err, EC_REGISTRATION_EXISTS, "(builtin)");
  ec_op_def few = def("aten::relu.out(*, Tensor(a!) out) -> Tensor(a!)", &user);
  EC_CHECK_FAILS(t, ec_op_register(&few, true, &err), &err, EC_INVALID_ARGUMENT,
                 "has other arguments than the operator it replaces: aten::relu.out(Tensor");
  ec_op_def view = def("executorch_prim::et_view.default(Tensor self, SymInt[] size, *, "
                       "Tensor(a!) out) -> ()", &user);
  EC_CHECK_FAILS(t, ec_op_register(&view, true, &err), &err, EC_NOT_SUPPORTED,
                 "cannot be replaced");
  EC_CHECK(t, user == 0);
  EC_CHECK_FAILS(t, ec_op_unregister("aten::relu.out", &err), &err, EC_INVALID_STATE,
                 "is built in and cannot be removed");
  const ec_op *builtin = ec_op_acquire("aten::relu.out");
  EC_CHECK_OK(t, ec_op_register(&add, true, &err), &err);
  ec_op_list list;
  EC_CHECK_OK(t, ec_op_list_init(&list, &err), &err);
  EC_CHECK(t, list.count == ec_op_count());
  const ec_op *op = NULL;
  for (size_t i = 0; i < list.count; i++)
    if (!strcmp(list.items[i]->name, "aten::relu.out")) op = list.items[i];
  ec_op_unregister_all(other_kernel, is_user, &user);
  EC_CHECK(t, op && op->custom && user == 100);
  ec_op_unregister_all(kernel, is_user, &user);
  EC_CHECK(t, user == 100 && op->nargs == 2); /* held by the list */
  ec_op_list_deinit(&list);
  EC_CHECK(t, user == 0 && ec_op_acquire("aten::relu.out") == builtin);
  ec_op_release(builtin);
}
