/* format/: the writer of FlatBuffers, what it wrote as the reads return it, versions, kinds of
 * files, and names of data files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/kind.h"
#include "format/ptd.h"
#include "format/source.h"
#include "testing/fb_text.h"
#include "testing/test.h"

static size_t refused_after;

static void *alloc_some(size_t size) { return refused_after-- ? malloc(size) : NULL; }

void ec_test_write_fields(ec_test *t) {
  EC_BUILD(w);
  uint64_t bits;
  const double half = 0.5;
  const float third = 0.25f;
  uint32_t small;
  memcpy(&bits, &half, 8);
  memcpy(&small, &third, 4);
  ec_fb_put(&w, NULL, 4, 4); /* the reference to the root */
  ec_fb_slot fields[] = {{.id = 5, .size = 8, .value = bits}, {.id = 0, .size = 1, .value = 200},
                         {.id = 2, .size = 4},                {.id = 3, .size = 4, .value = small},
                         {.id = 7, .size = 8, .value = 1ull << 40}};
  const size_t table = ec_fb_put_table(&w, fields, 5);
  ec_fb_link(&w, 0, table);
  ec_fb_link(&w, fields[2].at, ec_fb_put_string(&w, "name", 4));
  const ec_fb_table root = ec_fb_root(w.data);
  EC_CHECK(t, !w.failed && root == w.data + table && table % 8 == 0);
  EC_CHECK(t, ec_fb_f64(root, 5) == 0.5 && ec_fb_f32(root, 3) == 0.25f);
  EC_CHECK(t, ec_fb_u8(root, 0) == 200 && ec_fb_i8(root, 0) == -56 && ec_fb_bool(root, 0));
  EC_CHECK(t, ec_fb_i64(root, 7) == (int64_t)1 << 40 && ec_fb_u64(root, 7) == 1ull << 40);
  EC_CHECK(t, !strcmp(ec_fb_string(root, 2), "name") && ec_fb_string_size(root, 2) == 4);
  EC_CHECK(t, ec_fb_f64(root, 1) == 0 && ec_fb_f32(root, 6) == 0 && !ec_fb_bool(root, 8));
  EC_CHECK(t, ec_fb_f64(NULL, 5) == 0 && ec_fb_f32(NULL, 3) == 0 && ec_fb_u32(NULL, 0) == 0);
  EC_CHECK(t, !ec_fb_string(root, 1) && !ec_fb_string_size(root, 4) && !ec_fb_child(NULL, 2));
  EC_CHECK(t, ec_fb_vector(root, 1).count == 0 && !ec_fb_vector(root, 1).items);
  for (size_t i = 0; i < 5; i++)
    EC_CHECK(t, (fields[i].at - table) % fields[i].size == 0 && fields[i].at < w.size);
}

/* Items of 8 bytes are aligned wherever the vector is put, its count stands before them. */
void ec_test_write_vectors(ec_test *t) {
  const int64_t items[] = {1, -2, 3};
  for (size_t start = 0; start < 16; start++) {
    EC_BUILD(w);
    w.size = start;
    const size_t at = ec_fb_put_vector(&w, items, 3, 8);
    EC_CHECK(t, (at + 4) % 8 == 0 && at >= start && at < start + 12);
    EC_CHECK(t, ec_read_u32(w.data + at) == 3 && !memcmp(w.data + at + 4, items, sizeof items));
    EC_CHECK(t, w.size == at + 4 + sizeof items && !w.failed);
    const size_t zeros = ec_fb_put_vector(&w, NULL, 5, 2);
    EC_CHECK(t, zeros % 4 == 0 && ec_read_u32(w.data + zeros) == 5 && !w.data[zeros + 4]);
    const size_t none = ec_fb_put_vector(&w, items, 0, 4);
    EC_CHECK(t, ec_read_u32(w.data + none) == 0 && w.size == none + 4);
  }
}

void ec_test_write_grows(ec_test *t) {
  uint8_t bytes[3000];
  ec_fb_writer w = {.alloc = alloc_some, .free = free};
  refused_after = 3;
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
  EC_CHECK(t, ec_fb_put(&w, bytes, 3000, 1) == 0 && w.capacity == 4096);
  EC_CHECK(t, ec_fb_put(&w, bytes, 1096, 1) == 3000 && w.capacity == 4096); /* exactly full */
  EC_CHECK(t, ec_fb_put(&w, bytes, 1, 1) == 4096 && w.capacity == 8192);
  EC_CHECK(t, !memcmp(w.data, bytes, 3000) && !memcmp(w.data + 3000, bytes, 1096));
  EC_CHECK(t, ec_fb_put(&w, NULL, 30000, 1) == 4097 && w.capacity == 34097 && !w.data[34096]);
  EC_CHECK(t, ec_fb_put(&w, bytes, 1, 1) == 0 && w.failed); /* no memory */
  EC_CHECK(t, w.size == 34097 && ec_fb_put(&w, bytes, 0, 1) == 0); /* stays failed */
  ec_fb_poke(&w, 0, 77, 4);
  EC_CHECK(t, w.data[0] == 0 && w.data[1] == 1);
  free(w.data);
}

void ec_test_write_refuses(ec_test *t) {
  EC_BUILD(full);
  full.size = full.capacity - 3;
  EC_CHECK(t, ec_fb_put(&full, NULL, 3, 1) == full.capacity - 3 && !full.failed);
  EC_CHECK(t, ec_fb_put(&full, NULL, 1, 1) == 0 && full.failed);
  EC_BUILD(huge);
  EC_CHECK(t, ec_fb_put(&huge, NULL, SIZE_MAX / 2, 1) == 0 && huge.failed && huge.size == 0);
  EC_BUILD(far);
  far.size = SIZE_MAX / 2;
  EC_CHECK(t, ec_fb_put(&far, NULL, 1, 1) == 0 && far.failed);
  EC_BUILD(many);
  ec_fb_put_vector(&many, NULL, (size_t)INT32_MAX / 8 + 1, 8);
  EC_CHECK(t, many.failed);
  EC_BUILD(link);
  ec_fb_link(&link, 0, INT32_MAX);
  EC_CHECK(t, !link.failed && ec_read_u32(link.data) == INT32_MAX);
  ec_fb_link(&link, 0, (size_t)INT32_MAX + 1);
  EC_CHECK(t, link.failed && ec_read_u32(link.data) == INT32_MAX);
}

static ec_status check_text(const char *text, ec_error *err) {
  EC_BUILD(w);
  ec_fb_slot field = {.id = 0, .size = 4};
  const size_t table = ec_fb_put_table(&w, &field, 1);
  if (text) ec_fb_link(&w, field.at, ec_fb_put_string(&w, text, strlen(text)));
  return ec_fb_check_text_version(w.data + table, text ? 0 : 1, 2, EC_NOT_SUPPORTED, err);
}

void ec_test_write_versions(ec_test *t) {
  static const char *const newer[] = {"3", "", "two", "2a", "-1", " 1", "99999999999999999999999"};
  ec_error err = {0};
  EC_CHECK_OK(t, check_text(NULL, &err), &err);
  EC_CHECK_OK(t, check_text("0", &err), &err);
  EC_CHECK_OK(t, check_text("2", &err), &err);
  for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
    EC_CHECK_FAILS(t, check_text(newer[i], &err), &err, EC_NOT_SUPPORTED, "expected at most 2");
}

/* Fails for a file of `size` bytes with a text at an offset. */
static ec_status fail_kind(size_t size, size_t at, const char *text, ec_error *err) {
  static uint8_t data[1 << 18];
  memset(data, 0, sizeof data);
  memcpy(data + at, text, strlen(text));
  return ec_kind_fail(data, size, EC_INVALID_PROGRAM, "a .pte program", err);
}

void ec_test_kinds_of_files(ec_test *t) {
  ec_error err = {0};
  EC_CHECK_FAILS(t, fail_kind(7, 0, "", &err), &err, EC_INVALID_PROGRAM, "7 bytes are too few");
  EC_CHECK_FAILS(t, fail_kind(8, 4, "AB\1D", &err), &err, EC_INVALID_PROGRAM,
                 "its identifier is unknown");
  EC_CHECK_FAILS(t, fail_kind(8, 4, "ABCD", &err), &err, EC_INVALID_PROGRAM, "'ABCD'");
  EC_CHECK(t, err.hint == EC_HINT_NONE);
  EC_CHECK_FAILS(t, fail_kind(8, 4, "FT01", &err), &err, EC_INVALID_PROGRAM, "but a .ptd file");
  EC_CHECK(t, err.hint == EC_HINT_IS_DATA);
  EC_CHECK_FAILS(t, fail_kind(100, 0, "\x08\x07\x12\x05\x0a", &err), &err, EC_INVALID_PROGRAM,
                 "a Core ML model (.mlmodel)"); /* two of its bytes may be any */
  EC_CHECK_FAILS(t, fail_kind(100, 0, "\x08\x07\x13", &err), &err, EC_INVALID_PROGRAM,
                 "its identifier is unknown");
  EC_CHECK_FAILS(t, fail_kind(100, 4, "NFAT", &err), &err, EC_INVALID_PROGRAM, "a fat .pte");
  EC_CHECK(t, err.hint == EC_HINT_NONE);
}

void ec_test_kinds_of_archives(ec_test *t) {
  static uint8_t data[1 << 18];
  const size_t size = sizeof data;
  memcpy(data, "PK\003\004", 4);
  EC_CHECK(t, ec_kind_has_name(data, size, "PK") && !ec_kind_has_name(data, size, "name"));
  memcpy(data + 4096 - 3, "name", 4); /* beyond the first bytes */
  EC_CHECK(t, !ec_kind_has_name(data, size, "name"));
  memcpy(data + 4096 - 4, "name", 4);
  EC_CHECK(t, ec_kind_has_name(data, size, "name"));
  memcpy(data + size - 65536 - 1, "list", 4); /* before the last bytes */
  EC_CHECK(t, !ec_kind_has_name(data, size, "list"));
  memcpy(data + size - 65536, "list", 4);
  EC_CHECK(t, ec_kind_has_name(data, size, "list"));
  memcpy(data + size - 4, "last", 4);
  EC_CHECK(t, ec_kind_has_name(data, size, "last") && !ec_kind_has_name(data, 2, "last"));
  EC_CHECK(t, !ec_kind_is_other_archive(data + 8, 100));
  memcpy(data + 40, "ETRECORD_V0", 11);
  EC_CHECK(t, ec_kind_is_other_archive(data, size));
  memcpy(data + 40, "program.ptg", 11);
  EC_CHECK(t, !ec_kind_is_other_archive(data, size));
  EC_CHECK(t, !ec_kind_is_other_archive((const uint8_t *)"\0\0\0\0ET12....", 12));
  ec_error err = {0};
  EC_CHECK_FAILS(t, fail_kind(100, 0, "RIFF", &err), &err, EC_INVALID_PROGRAM, "is unknown");
}

void ec_test_kinds_of_folders(ec_test *t) {
  char path[] = "/tmp/executorch_c_kind_XXXXXX", entry[64], longest[5000];
  EC_CHECK(t, mkdtemp(path) != NULL);
  EC_CHECK(t, !strcmp(ec_kind_of_folder(path), "a directory, not a file"));
  snprintf(entry, sizeof entry, "%s/Manifest.json", path);
  EC_CHECK(t, mkdir(entry, 0700) == 0);
  EC_CHECK(t, strstr(ec_kind_of_folder(path), "Core ML"));
  rmdir(entry);
  EC_CHECK(t, rmdir(path) == 0);
  memset(longest, '/', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  EC_CHECK(t, !strcmp(ec_kind_of_folder(longest), "a directory, not a file"));
  EC_CHECK(t, strstr(ec_kind_of_object("ExecutorchProgramManager"), ": "));
  EC_CHECK(t, !ec_kind_of_object("int"));
}

void ec_test_ptd_texts(ec_test *t) {
  char text[EC_PTD_TEXT], path[EC_PTD_TEXT + 1];
  EC_CHECK(t, !strcmp(ec_ptd_text(NULL, 3, text), "data file 3"));
  EC_CHECK(t, !strcmp(ec_ptd_text("a.ptd", 3, text), "data file 'a.ptd'"));
  memset(path, 'x', sizeof path);
  path[EC_PTD_TEXT - 20] = 0;
  EC_CHECK(t, strlen(ec_ptd_text(path, 0, text)) == EC_PTD_TEXT - 20 + 12);
  path[EC_PTD_TEXT - 20] = 'x';
  path[EC_PTD_TEXT] = 0;
  path[0] = '/';
  EC_CHECK(t, !strncmp(ec_ptd_text(path, 0, text), "data file '...xx", 16));
  EC_CHECK(t, strlen(text) == EC_PTD_TEXT - 20 + 15 && text[strlen(text) - 1] == '\'');
}

void ec_test_source_kinds(ec_test *t) {
  ec_error err = {0};
  bool is_stream = true;
  int ends[2];
  EC_CHECK_FAILS(t, ec_source_open_buffer(&(ec_source){0}, NULL, 8, NULL, NULL, &err), &err,
                 EC_INVALID_ARGUMENT, "the buffer is empty");
  EC_CHECK(t, socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  EC_CHECK_OK(t, ec_source_check_open(ends[0], "a socket", &is_stream, &err), &err);
  EC_CHECK(t, is_stream);
  close(ends[0]), close(ends[1]);
  EC_CHECK(t, pipe(ends) == 0);
  EC_CHECK_OK(t, ec_source_check_open(ends[0], "a pipe", &is_stream, &err), &err);
  EC_CHECK(t, is_stream);
  FILE *file = tmpfile(), *device = fopen("/dev/null", "r"), *folder = fopen("/", "r");
  EC_CHECK(t, file && device && folder);
  if (file && device && folder) {
    EC_CHECK_OK(t, ec_source_check_open(fileno(file), "a file", &is_stream, &err), &err);
    EC_CHECK(t, !is_stream);
    EC_CHECK_FAILS(t, ec_source_check_open(fileno(device), "null", &is_stream, &err), &err,
                   EC_ACCESS_FAILED, "'null' is a device, not a file");
    EC_CHECK_FAILS(t, ec_source_check_open(fileno(folder), "root", &is_stream, &err), &err,
                   EC_ACCESS_FAILED, "'root' is a folder");
    fclose(file), fclose(device), fclose(folder);
  }
  close(ends[0]), close(ends[1]);
  EC_CHECK_FAILS(t, ec_source_check_open(ends[0], "closed", &is_stream, &err), &err,
                 EC_ACCESS_FAILED, "cannot read the kind of 'closed'");
}

/* A file above the size that is copied: mapped, watched, its pages given back. */
void ec_test_source_mapped(ec_test *t) {
  ec_error err = {0};
  ec_source s;
  char path[] = "/tmp/executorch_c_source_XXXXXX";
  const int fd = mkstemp(path);
  EC_CHECK(t, fd >= 0 && ftruncate(fd, EC_COPIED_FILE + 1) == 0 && write(fd, "abc", 3) == 3);
  EC_CHECK_OK(t, ec_source_open_file(&s, path, EC_MLOCK_NONE, &err), &err);
  EC_CHECK(t, s.mapped == EC_COPIED_FILE + 1 && s.watched && s.data[1] == 'b');
  EC_CHECK_OK(t, ec_source_check_unchanged(&s, &err), &err);
  ec_source_release_pages(&s, s.data, s.size);
  ec_source_release_pages(&s, s.data - 1, 4096);
  ec_source_release_pages(&s, s.data + 1, 4096); /* no whole page */
  EC_CHECK(t, s.data[2] == 'c');
  struct timespec times[2] = {{0}, {.tv_sec = s.written.tv_sec, .tv_nsec = 1}};
  if (s.written.tv_nsec == 1) times[1].tv_nsec = 2;
  EC_CHECK(t, futimens(fd, times) == 0);
  EC_CHECK_FAILS(t, ec_source_check_unchanged(&s, &err), &err, EC_INVALID_STATE, "was written");
  times[1] = (struct timespec){s.written.tv_sec - 1, s.written.tv_nsec};
  EC_CHECK(t, futimens(fd, times) == 0);
  EC_CHECK_FAILS(t, ec_source_check_unchanged(&s, &err), &err, EC_INVALID_STATE, path);
  times[1] = s.written;
  EC_CHECK(t, futimens(fd, times) == 0);
  EC_CHECK_OK(t, ec_source_check_unchanged(&s, &err), &err);
  EC_CHECK(t, ftruncate(fd, EC_COPIED_FILE + 2) == 0);
  EC_CHECK_FAILS(t, ec_source_check_unchanged(&s, &err), &err, EC_INVALID_STATE,
                 "(1048578 bytes, it had 1048577)");
  const ec_source lost = {.watched = 1 << 20, .size = 1}; /* no such descriptor */
  EC_CHECK_OK(t, ec_source_check_unchanged(&lost, &err), &err);
  ec_source_close(&s);
  EC_CHECK(t, !s.data && !s.path);
  EC_CHECK_OK(t, ec_source_check_unchanged(&s, &err), &err); /* closed: nothing is watched */
  EC_CHECK(t, ftruncate(fd, 100) == 0);
  EC_CHECK_OK(t, ec_source_open_file(&s, path, EC_MLOCK_TRY, &err), &err);
  EC_CHECK(t, s.mapped == 100); /* a locked file is mapped whatever its size */
  ec_source_close(&s);
  close(fd);
  unlink(path);
}
