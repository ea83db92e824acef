! All-reduces of a Fortran program by one of MPI's three interfaces: DDL_TEST_MPIF_H, DDL_TEST_USE_MPI or
! DDL_TEST_USE_MPI_F08.
!
!   fortran [--only-eligible]     leaves out what an engine may hand to the original library
!
! Rank 0 says at the end how many all-reduces each rank has made.
#ifdef DDL_TEST_USE_MPI_F08
#define COMMUNICATOR type(MPI_Comm)
#define DATATYPE type(MPI_Datatype)
#define OPERATION type(MPI_Op)
#define REQUEST type(MPI_Request)
#else
#define COMMUNICATOR integer
#define DATATYPE integer
#define OPERATION integer
#define REQUEST integer
#endif

module own_operations
  implicit none
contains
#ifdef DDL_TEST_USE_MPI_F08
  subroutine larger_magnitude(in, inout, n, datatype)
    use mpi_f08
    use, intrinsic :: iso_c_binding
    type(c_ptr), value :: in, inout
    integer :: n
    type(MPI_Datatype) :: datatype
    double precision, pointer :: a(:), b(:)
    call c_f_pointer(in, a, [n])
    call c_f_pointer(inout, b, [n])
    where (abs(a) > abs(b)) b = a
    if (n < 0) print *, datatype%MPI_VAL
  end subroutine
#else
  subroutine larger_magnitude(a, b, n, datatype)
    integer :: n, datatype
    double precision :: a(n), b(n)
    where (abs(a) > abs(b)) b = a
    if (n < 0) print *, datatype
  end subroutine
#endif
end module

program all_reduces
#ifdef DDL_TEST_USE_MPI_F08
  use mpi_f08
#elif defined(DDL_TEST_USE_MPI)
  use mpi
#endif
  implicit none
#ifdef DDL_TEST_MPIF_H
  include 'mpif.h'
#endif
  integer, parameter :: counts(6) = [1, 2, 7, 100, 4097, 100003]
  integer :: code, rank, ranks, k, calls, wrong
  logical :: everything
  character(len=32) :: word

  calls = 0
  wrong = 0
  everything = .true.
  if (command_argument_count() > 0) then
    call get_command_argument(1, word)
    everything = word /= '--only-eligible'
  end if
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  do k = 1, size(counts)
    call numbers(counts(k))
    call complex_numbers(counts(k))
    call truth_values(counts(k))
    call nonblocking(counts(k))
    call other_collectives(counts(k))
    call with_counts(counts(k))
  end do
  call communicators
  call communicators_later
  call bottom
  do k = 1, 3
    call operations(.true.)
  end do
  if (everything) call operations(.false.)
  if (wrong > 0) then
    print '(a, i0, a, i0)', 'rank ', rank, ': wrong results: ', wrong
    call MPI_Abort(MPI_COMM_WORLD, 1, code)
  end if
  call MPI_Finalize(code)
  if (rank == 0) print '(a, i0)', 'all-reduces of each rank: ', calls

contains

  subroutine check(right)
    logical, intent(in) :: right
    calls = calls + 1
    if (.not. right) then
      wrong = wrong + 1
      if (wrong == 1) print '(a, i0, a, i0)', 'rank ', rank, ': wrong is call ', calls
    end if
  end subroutine

  subroutine numbers(n)
    integer, intent(in) :: n
    integer :: i, a(n), b(n)
    integer(kind=8) :: c(n), d(n)
    real :: e(n), f(n)
    double precision :: g(n), h(n)
    a = [(rank + i, i = 1, n)]
    c = a
    e = a
    g = a
    call MPI_Allreduce(a, b, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    call check(all(b == [(ranks * (ranks - 1) / 2 + ranks * i, i = 1, n)]))
    call MPI_Allreduce(a, b, n, MPI_INTEGER4, MPI_BOR, MPI_COMM_WORLD, code)
    call check(all(iand(b, a) == a))
    call MPI_Allreduce(c, d, n, MPI_INTEGER8, MPI_MAX, MPI_COMM_WORLD, code)
    call check(all(d == [(ranks - 1 + i, i = 1, n)]))
    call MPI_Allreduce(e, f, n, MPI_REAL, MPI_MIN, MPI_COMM_WORLD, code)
    call check(all(f == [(real(i), i = 1, n)]))
    call MPI_Allreduce(g, h, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
    call check(all(h == [(ranks * (ranks - 1) / 2 + dble(ranks) * i, i = 1, n)]))
    call MPI_Allreduce(MPI_IN_PLACE, g, n, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, code)
    call check(all(g == h))
  end subroutine

  subroutine complex_numbers(n)
    integer, intent(in) :: n
    complex :: a(n), b(n)
    complex(kind(0d0)) :: c(n), d(n)
    a = cmplx(rank, 2 * rank + 1)
    c = a
    call MPI_Allreduce(a, b, n, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, code)
    call check(all(b == cmplx(ranks * (ranks - 1) / 2, ranks * ranks)))
    call MPI_Allreduce(c, d, n, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, code)
    call check(all(d == b))
    call MPI_Allreduce(MPI_IN_PLACE, c, n, MPI_COMPLEX16, MPI_SUM, MPI_COMM_WORLD, code)
    call check(all(c == d))
  end subroutine

  subroutine truth_values(n)
    integer, intent(in) :: n
    integer :: i
    logical :: a(n), b(n)
    a = [(mod(i, ranks) == rank, i = 1, n)]
    call MPI_Allreduce(a, b, n, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, code)
    call check(all(b))
    call MPI_Allreduce(a, b, n, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, code)
    call check(all(b .eqv. ranks == 1))
    call MPI_Allreduce(.not. a, b, n, MPI_LOGICAL, MPI_LXOR, MPI_COMM_WORLD, code)
    call check(all(b .eqv. mod(ranks, 2) == 0))
  end subroutine

  subroutine nonblocking(n)
    integer, intent(in) :: n
    REQUEST :: requests(2)
    double precision :: a(n), b(n)
    real :: c(n)
    a = rank + 1
    c = rank + 1
    call MPI_Iallreduce(a, b, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, requests(1), code)
    call MPI_Iallreduce(MPI_IN_PLACE, c, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(2), code)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
    call check(all(b == ranks * (ranks + 1) / 2))
    call check(all(c == ranks * (ranks + 1) / 2))
  end subroutine

  ! Not counted as calls.
  subroutine other_collectives(n)
    integer, intent(in) :: n
    integer, parameter :: root = 0
    integer :: i, own(n), all(n, 0:ranks - 1), sent(n, 0:ranks - 1)
    complex :: total(n)
    logical :: truth(n)
    character :: text(n)
    own = rank
    all = -1
    call MPI_Allgather(own, n, MPI_INTEGER, all, n, MPI_INTEGER, MPI_COMM_WORLD, code)
    call expect(is_by_rank(all))
    all = -1
    all(:, rank) = rank
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, all, n, MPI_INTEGER, MPI_COMM_WORLD, code)
    call expect(is_by_rank(all))
    sent = rank
    call MPI_Alltoall(sent, n, MPI_INTEGER, all, n, MPI_INTEGER, MPI_COMM_WORLD, code)
    call expect(is_by_rank(all))
    all = -1
    call MPI_Gather(own, n, MPI_INTEGER, all, n, MPI_INTEGER, root, MPI_COMM_WORLD, code)
    call expect(rank /= root .or. is_by_rank(all))
    own = -1
    call MPI_Scatter(all, n, MPI_INTEGER, own, n, MPI_INTEGER, root, MPI_COMM_WORLD, code)
    call expect(size(own) == count(own == rank))
    text = merge('x', ' ', rank == root)
    call MPI_Bcast(text, n, MPI_CHARACTER, root, MPI_COMM_WORLD, code)
    call expect(count(text == 'x') == n)
    total = cmplx(1, rank)
    if (rank == root) then
      call MPI_Reduce(MPI_IN_PLACE, total, n, MPI_COMPLEX, MPI_SUM, root, MPI_COMM_WORLD, code)
      call expect(count(total == cmplx(ranks, ranks * (ranks - 1) / 2)) == n)
    else
      call MPI_Reduce(total, total, n, MPI_COMPLEX, MPI_SUM, root, MPI_COMM_WORLD, code)
    end if
    sent = rank
    call MPI_Reduce_scatter_block(sent, own, n, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, code)
    call expect(count(own == ranks - 1) == n)
    truth = [(mod(i, 2) == 0 .or. rank /= root, i = 1, n)]
    call MPI_Bcast(truth, n, MPI_LOGICAL, root, MPI_COMM_WORLD, code)
    call expect(count(truth) == n / 2)
    call MPI_Barrier(MPI_COMM_WORLD, code)
  end subroutine

  ! Rank r has n + r elements. Not counted as calls.
  subroutine with_counts(n)
    integer, intent(in) :: n
    integer, parameter :: root = 0
    integer :: r, lengths(0:ranks - 1), places(0:ranks - 1), own(n + rank)
    integer :: all(ranks * (n + ranks)), sent(ranks * (n + rank)), same(0:ranks - 1)
    REQUEST :: request
    lengths = [(n + r, r = 0, ranks - 1)]
    places = [(r * (n + ranks), r = 0, ranks - 1)]
    own = rank
    all = -1
    call MPI_Allgatherv(own, n + rank, MPI_INTEGER, all, lengths, places, MPI_INTEGER, MPI_COMM_WORLD, code)
    call expect(is_placed(all, lengths, places))
    all = -1
    all(places(rank) + 1:places(rank) + n + rank) = rank
    call MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_INTEGER, all, lengths, places, MPI_INTEGER, MPI_COMM_WORLD, request, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    call expect(is_placed(all, lengths, places))
    all = -1
    call MPI_Gatherv(own, n + rank, MPI_INTEGER, all, lengths, places, MPI_INTEGER, root, MPI_COMM_WORLD, code)
    call expect(rank /= root .or. is_placed(all, lengths, places))
    own = -1
    call MPI_Scatterv(all, lengths, places, MPI_INTEGER, own, n + rank, MPI_INTEGER, root, MPI_COMM_WORLD, code)
    call expect(count(own == rank) == n + rank)
    sent = rank
    same = n + rank
    all = -1
    call MPI_Alltoallv(sent, same, [(r * (n + rank), r = 0, ranks - 1)], MPI_INTEGER, all, lengths, places, MPI_INTEGER, &
                       MPI_COMM_WORLD, code)
    call expect(is_placed(all, lengths, places))
    all = rank
    call MPI_Reduce_scatter(all, own, lengths, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, code)
    call expect(count(own == ranks - 1) == n + rank)
  end subroutine

  ! Block r of them at its place, and nothing between.
  logical function is_placed(blocks, lengths, places)
    integer, intent(in) :: blocks(:), lengths(0:), places(0:)
    integer :: r
    is_placed = count(blocks == -1) == size(blocks) - sum(lengths)
    do r = 0, ranks - 1
      is_placed = is_placed .and. count(blocks(places(r) + 1:places(r) + lengths(r)) == r) == lengths(r)
    end do
  end function

  logical function is_by_rank(blocks)
    integer, intent(in) :: blocks(:, 0:)
    integer :: i
    is_by_rank = .true.
    do i = 0, ranks - 1
      is_by_rank = is_by_rank .and. count(blocks(:, i) == i) == size(blocks, 1)
    end do
  end function

  subroutine expect(right)
    logical, intent(in) :: right
    if (.not. right) wrong = wrong + 1
  end subroutine

  ! Freed ones come again as other communicators with the same handle.
  subroutine communicators
    COMMUNICATOR :: part, copy
    integer :: i, mine, total, members
    do i = 1, 20
      call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 1 + mod(i, 3)), -rank, part, code)
      call MPI_Comm_dup(part, copy, code)
      call MPI_Comm_size(copy, members, code)
      mine = i
      call MPI_Allreduce(mine, total, 1, MPI_INTEGER, MPI_SUM, part, code)
      call check(total == i * members)
      call MPI_Comm_free(part, code)
      call MPI_Allreduce(mine, total, 1, MPI_INTEGER, MPI_SUM, copy, code)
      call check(total == i * members)
      call MPI_Comm_free(copy, code)
    end do
  end subroutine

  ! Ready once its request is; other calls go on meanwhile. One at a time: with more Open MPI 4 may wait for ever.
  subroutine communicators_later
    COMMUNICATOR :: copy
    REQUEST :: request
    integer :: i, mine, total
    do i = 1, 3
      mine = i
      call MPI_Comm_idup(MPI_COMM_WORLD, copy, request, code)
      call MPI_Allreduce(mine, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
      call check(total == i * ranks)
      call MPI_Wait(request, MPI_STATUS_IGNORE, code)
      call MPI_Allreduce(mine, total, 1, MPI_INTEGER, MPI_SUM, copy, code)
      call check(total == i * ranks)
      call MPI_Comm_free(copy, code)
    end do
  end subroutine

  ! A type of addresses, at no buffer.
  subroutine bottom
    integer(kind=MPI_ADDRESS_KIND) :: address(2)
    DATATYPE :: both
    integer, save, asynchronous :: a, b
    a = merge(11, 0, rank == 0)
    b = merge(22, 0, rank == 0)
    call MPI_Get_address(a, address(1), code)
    call MPI_Get_address(b, address(2), code)
    call MPI_Type_create_hindexed_block(2, 1, address, MPI_INTEGER, both, code)
    call MPI_Type_commit(both, code)
    call MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD, code)
    call MPI_Type_free(both, code)
    call expect(a == 11 .and. b == 22)
  end subroutine

  ! One that is said not to commute is left to the original library.
  subroutine operations(commutes)
    use own_operations
    logical, intent(in) :: commutes
    OPERATION :: magnitude
    double precision :: a(10), b(10)
    call MPI_Op_create(larger_magnitude, commutes, magnitude, code)
    a = -rank - 1
    call MPI_Allreduce(a, b, 10, MPI_DOUBLE_PRECISION, magnitude, MPI_COMM_WORLD, code)
    call check(all(b == -ranks))
    call MPI_Op_free(magnitude, code)
  end subroutine
end program
