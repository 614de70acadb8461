/* backend/registry.c: what a backend must have, ids, availability, and the messages about backends
 * that are missing. */
#include "backend/registry.h"

#include <stdio.h>

#include "testing/test.h"

static uint32_t init(const ec_backend *b, const ec_host *host, ec_host_call *call,
                     const ec_backend_init *in, void **out) {
  (void)b, (void)host, (void)call, (void)in, (void)out;
  return EC_BACKEND_OK;
}

static uint32_t execute(const ec_backend *b, const ec_host *host, ec_host_call *call, void *handle,
                        ec_backend_arg *args, size_t count) {
  (void)b, (void)host, (void)call, (void)handle, (void)args, (void)count;
  return EC_BACKEND_OK;
}

static bool is_available(const ec_backend *b) { return b->user != NULL; }

static const char *why_unavailable(const ec_backend *b) {
  (void)b;
  return "it needs a device";
}

static ec_backend backend_of(const char *id) {
  return (ec_backend){.abi_version = EC_BACKEND_ABI_VERSION,
                      .struct_size = sizeof(ec_backend),
                      .id = id,
                      .init = init,
                      .execute = execute};
}

void ec_test_registry_refuses(ec_test *t) {
  ec_error err = {0};
  ec_backend b = backend_of("TestBackend");
  const size_t before = ec_backend_count();
  EC_CHECK_FAILS(t, ec_backend_register(NULL, &err), &err, EC_INVALID_ARGUMENT, "ABI version 0");
  b.abi_version++;
  EC_CHECK_FAILS(t, ec_backend_register(&b, &err), &err, EC_INVALID_ARGUMENT, "ABI version 2");
  ec_backend rows[] = {backend_of(NULL), backend_of(""), backend_of("NoInit"),
                       backend_of("NoExecute"), backend_of("Short")};
  rows[2].init = NULL;
  rows[3].execute = NULL;
  rows[4].struct_size = offsetof(ec_backend, set_option) - 1;
  static const char *const texts[] = {"'?' is incomplete", "'' is incomplete", "'NoInit'",
                                      "'NoExecute'", "'?' is incomplete"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    EC_CHECK_FAILS(t, ec_backend_register(&rows[i], &err), &err, EC_INVALID_ARGUMENT, texts[i]);
  EC_CHECK(t, ec_backend_count() == before);
}

void ec_test_registry_ids(ec_test *t) {
  ec_error err = {0};
  ec_backend one = backend_of("TestOne"), same = backend_of("TestOne");
  ec_backend two = backend_of("TestTwo");
  const size_t before = ec_backend_count();
  EC_CHECK_OK(t, ec_backend_register(&one, &err), &err);
  EC_CHECK_OK(t, ec_backend_register(&one, &err), &err); /* again: nothing happens */
  EC_CHECK_OK(t, ec_backend_register(&two, &err), &err);
  EC_CHECK_FAILS(t, ec_backend_register(&same, &err), &err, EC_REGISTRATION_EXISTS, "'TestOne'");
  EC_CHECK(t, ec_backend_count() == before + 2 && ec_backend_at(before) == &one);
  EC_CHECK(t, ec_backend_at(before + 1) == &two && !ec_backend_at(before + 2));
  ec_backend_unregister(&one);
  EC_CHECK(t, !ec_backend_find("TestOne") && ec_backend_at(before) == &two);
  ec_backend_unregister(&same); /* was not registered */
  ec_backend_unregister(&two);
  EC_CHECK(t, ec_backend_count() == before);
}

void ec_test_registry_full(ec_test *t) {
  static ec_backend many[EC_MAX_BACKENDS + 1];
  static char ids[EC_MAX_BACKENDS + 1][16];
  ec_error err = {0};
  const size_t room = EC_MAX_BACKENDS - ec_backend_count();
  for (size_t i = 0; i <= room; i++) {
    snprintf(ids[i], sizeof ids[i], "Many%zu", i);
    many[i] = backend_of(ids[i]);
    if (i < room) EC_CHECK_OK(t, ec_backend_register(&many[i], &err), &err);
  }
  EC_CHECK_OK(t, ec_backend_register(&many[0], &err), &err);
  EC_CHECK_FAILS(t, ec_backend_register(&many[room], &err), &err, EC_REGISTRATION_EXCEEDING_MAX,
                 "more than");
  EC_CHECK(t, ec_backend_count() == EC_MAX_BACKENDS);
  for (size_t i = 0; i < room; i++) ec_backend_unregister(&many[i]);
  EC_CHECK(t, ec_backend_count() == EC_MAX_BACKENDS - room);
}

void ec_test_registry_available(ec_test *t) {
  ec_error err = {0};
  const ec_backend *out;
  ec_backend b = backend_of("TestBackend");
  EC_CHECK(t, !ec_backend_is_available("TestBackend") && !ec_backend_lacks("TestBackend"));
  EC_CHECK_OK(t, ec_backend_register(&b, &err), &err);
  EC_CHECK(t, ec_backend_is_available("TestBackend") && !ec_backend_lacks("TestBackend"));
  EC_CHECK_OK(t, ec_backend_require("TestBackend", &out, &err), &err);
  EC_CHECK(t, out == &b);
  b.why_unavailable = why_unavailable;
  EC_CHECK(t, !ec_backend_lacks("TestBackend")); /* it is available */
  b.is_available = is_available;
  EC_CHECK(t, !ec_backend_is_available("TestBackend"));
  b.struct_size = offsetof(ec_backend, set_option); /* of a backend that knows no such member */
  EC_CHECK(t, !ec_backend_lacks("TestBackend"));
  b.struct_size = sizeof b;
  EC_CHECK_FAILS(t, ec_backend_require("TestBackend", &out, &err), &err, EC_NOT_FOUND,
                 "not available on this machine: it needs a device");
  EC_CHECK_OK(t, ec_backend_registered("TestBackend", &out, &err), &err);
  b.user = &b;
  EC_CHECK(t, ec_backend_is_available("TestBackend") && !ec_backend_lacks("TestBackend"));
  b.user = NULL;
  b.why_unavailable = NULL;
  EC_CHECK_FAILS(t, ec_backend_require("TestBackend", &out, &err), &err, EC_NOT_FOUND,
                 "not available on this machine");
  EC_CHECK(t, !strchr(err.message, ':'));
  ec_backend_unregister(&b);
}

void ec_test_registry_names(ec_test *t) {
  ec_error err = {0};
  const ec_backend *out = NULL;
  ec_backend one = backend_of("TestOne"), two = backend_of("TestTwo");
  const ec_backend *others[EC_MAX_BACKENDS]; /* of tests before this one */
  size_t count = 0;
  for (; ec_backend_count(); count++) ec_backend_unregister(others[count] = ec_backend_at(0));
  EC_CHECK_FAILS(t, ec_backend_registered("Nowhere", &out, &err), &err, EC_NOT_FOUND,
                 "'Nowhere' is not registered; registered: none");
  EC_CHECK(t, !out);
  EC_CHECK_FAILS(t, ec_backend_require("CoreMLBackend", &out, &err), &err, EC_NOT_FOUND,
                 "'CoreMLBackend' is not registered: CoreMLBackend is Apple's Core ML");
  EC_CHECK_OK(t, ec_backend_register(&one, &err), &err);
  EC_CHECK_OK(t, ec_backend_register(&two, &err), &err);
  EC_CHECK_FAILS(t, ec_backend_require("Nowhere", &out, &err), &err, EC_NOT_FOUND,
                 "registered: 'TestOne', 'TestTwo'");
  EC_CHECK(t, !strstr(err.message, "none"));
  ec_backend_unregister(&one);
  ec_backend_unregister(&two);
  for (size_t i = 0; i < count; i++) EC_CHECK_OK(t, ec_backend_register(others[i], &err), &err);
}

/* Returns the id for an archive of 100 bytes with a name in it. */
static const char *package_of(const char *magic, const char *name, const char **what) {
  uint8_t data[100] = {0};
  memcpy(data, magic, strlen(magic));
  memcpy(data + 40, name, strlen(name));
  return ec_backend_of_package(data, sizeof data, what);
}

void ec_test_registry_packages(ec_test *t) {
  const char *what = NULL, *id = package_of("PK\003\004", "program.ptg", &what);
  EC_CHECK(t, id && !strcmp(id, "NativeBackend") && what && strstr(what, ".ptn"));
  id = package_of("PK\003\004", "program.safetensors", &what);
  EC_CHECK(t, id && !strcmp(id, "NativeBackend"));
  EC_CHECK(t, !package_of("PK\003\005", "program.ptg", &what));
  EC_CHECK(t, !package_of("PK\003\004", "anything", &what));
  EC_CHECK(t, !package_of("PK\003\004", "program.safetensors ETRECORD_V0", &what));
  const uint8_t few[63] = "PK\003\004program.ptg";
  EC_CHECK(t, !ec_backend_of_package(few, sizeof few, &what));
}
