/* A program that names a function of NCCL, wherever that is, and does not get to call it. */
int ncclAllReduce(void);
int main(int argc, char** argv) {
  (void)argv;
  return argc > 9 ? ncclAllReduce() : 0;
}
