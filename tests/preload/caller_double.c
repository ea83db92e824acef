/* Who calls MPI in caller_test.cpp: loaded under the names of different libraries. */
int call(int (*function)(void));

int call(int (*function)(void)) {
  volatile int answer = function(); /* so that it comes back here */
  return answer;
}
