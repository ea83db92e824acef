/* A program that has MPI inside; or functions of a tool, which call the MPI of a library. */
int MPI_Allreduce(void);
#ifdef DDL_TEST_TOOL
int PMPI_Allreduce(void);
int MPI_Allreduce(void) { return PMPI_Allreduce(); }
#else
int MPI_Allreduce(void) { return 0; }
#endif
int main(void) { return MPI_Allreduce(); }
