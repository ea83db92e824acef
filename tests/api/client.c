/* What a program outside the tree does with ddl.h: `client CASE`. */
#include "client.h"

int wrong = 0;

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "job";
  if (!strcmp(name, "job")) return job();
  if (!strcmp(name, "gradients")) return gradients(argc > 2);
  if (!strcmp(name, "refusals")) return refusals();
  if (!strcmp(name, "mismatch")) return mismatch();
  if (!strcmp(name, "dead_peer")) return dead_peer();
  if (!strcmp(name, "lost_request")) return lost_request();
  if (!strcmp(name, "no_memory")) return no_memory();
  if (!strcmp(name, "killed")) return killed();
  if (!strcmp(name, "init")) return only_init();
  return 99;
}
