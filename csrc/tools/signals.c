/* Signals that end the process: a sentence with the operator. */
#include "tools/signals.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "runtime/calls.h"

static const struct {
  int number;
  const char *name;
} signals[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"},
               {SIGABRT, "SIGABRT"}};

static const char *running_model = "";

static void print(const char *text) {
  const ssize_t written = write(STDERR_FILENO, text, strlen(text));
  (void)written;
}

/* Runs on signals: calls only functions that may. The default action follows. */
static void print_signal(int number) {
  const char *operator = ec_running();
  print("ec-run: ");
  print(running_model);
  print(": ended by ");
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    if (signals[i].number == number) print(signals[i].name);
  print(operator ? " in " : ", in no operator");
  if (operator) print(operator);
  print("\n");
  raise(number);
}

void signals_name(const char *model) {
  running_model = model;
  ec_keep_running();
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction action = {.sa_handler = print_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(signals[i].number, &action, NULL);
  }
}
