/* Stands for an MPI library. */
int PMPI_Allreduce(void);
int PMPI_Allreduce(void) { return 0; }
