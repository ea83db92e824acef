// A C++ program over gloo, which knows nothing of the engine: reductions of its own, for which gloo has no
// name, called through gloo's own headers.
//
//   program RANK RANKS FOLDER CASE [SIZE]
#include <gloo/allreduce.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <atomic>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

thread_local bool is_in_gloo = false;
std::atomic<int> strays = 0;  // calls of a reduction by threads that are not in gloo's

void note() {
  if (!is_in_gloo) ++strays;
}

// The number of larger magnitude.
void larger(void* out, const void* a, const void* b, std::size_t elements) {
  note();
  for (std::size_t i = 0; i < elements; ++i) {
    const float one = static_cast<const float*>(a)[i], other = static_cast<const float*>(b)[i];
    static_cast<float*>(out)[i] = std::fabs(one) < std::fabs(other) ? other : one;
  }
}

template <class Number>
void add(void* out, const void* a, const void* b, std::size_t elements) {
  note();
  for (std::size_t i = 0; i < elements; ++i) {
    Number sum = static_cast<const Number*>(a)[i];
    sum += static_cast<const Number*>(b)[i];
    static_cast<Number*>(out)[i] = sum;
  }
}

void fails(void* out, const void* a, const void* b, std::size_t elements) {
  static std::atomic<int> calls = 0;
  if (++calls > 2) throw std::domain_error("no more");
  larger(out, a, b, elements);
}

// Three numbers: the engine moves no such elements.
struct Triple {
  float of[3] = {};
  Triple& operator+=(const Triple& other) {
    for (int i = 0; i < 3; ++i) of[i] += other.of[i];
    return *this;
  }
};

using Complex = std::complex<double>;
using Reduction = gloo::AllreduceOptions::Func;

struct Ranks {
  int rank, size;
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::uint32_t tag = 0;

  template <class Number>
  std::vector<Number> all_reduce(std::vector<Number> values, const Reduction& reduction, std::uint32_t as) {
    gloo::AllreduceOptions options(context);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(reduction);
    options.setTag(as);
    is_in_gloo = true;
    gloo::allreduce(options);
    is_in_gloo = false;
    return values;
  }
  template <class Number>
  std::vector<Number> all_reduce(std::vector<Number> values, const Reduction& reduction) {
    return all_reduce(std::move(values), reduction, tag++);
  }
};

void expect(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "program: %s is wrong\n", what);
  std::exit(1);
}

float value(int rank, std::size_t i) {
  return (static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 11) - 5) *
         static_cast<float>(rank + 1);
}

std::vector<float> values(int rank, std::size_t count) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = value(rank, i);
  return made;
}

std::vector<float> largest(int size, std::size_t count) {
  std::vector<float> right = values(0, count);
  for (int other = 1; other < size; ++other)
    larger(right.data(), right.data(), values(other, count).data(), count);
  strays = 0;  // the check is not in gloo
  return right;
}

bool same_magnitude(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::fabs(a[i]) != std::fabs(b[i])) return false;
  return true;
}

void own(Ranks& ranks) {
  for (std::size_t count : {1ul, 5ul, 1000ul, 65537ul, 1ul << 20}) {
    const std::vector<float> right = largest(ranks.size, count);
    expect(same_magnitude(ranks.all_reduce(values(ranks.rank, count), larger), right),
           "a function of the program's");
    expect(strays == 0, "the thread that reduces");
    int scale = 3;  // with a state: too large to be a plain function
    double unused[4] = {0.5, 1, 2, 3};
    Reduction with_state = [scale, unused](void* out, const void* a, const void* b, std::size_t elements) {
      larger(out, a, b, unused[0] > 0 && scale == 3 ? elements : 0);
    };
    expect(same_magnitude(ranks.all_reduce(values(ranks.rank, count), with_state), right),
           "a function object");
    std::vector<Complex> numbers(count, Complex(ranks.rank + 1, static_cast<double>(count)));
    const double sum = ranks.size * (ranks.size + 1) / 2.0;
    numbers = ranks.all_reduce(std::move(numbers), add<Complex>);
    for (const Complex& one : numbers)
      expect(one == Complex(sum, static_cast<double>(count) * ranks.size), "a sum of complex numbers");
  }
  expect(strays == 0, "the thread that reduces");
}

void reduced(Ranks& ranks) {
  for (int root = 0; root < ranks.size; ++root)
    for (std::size_t count : {3ul, 70000ul}) {
      std::vector<float> mine = values(ranks.rank, count);
      gloo::ReduceOptions options(ranks.context);
      options.setOutput(mine.data(), count);
      options.setReduceFunction(larger);
      options.setRoot(root);
      options.setTag(ranks.tag++);
      is_in_gloo = true;
      gloo::reduce(options);
      is_in_gloo = false;
      if (root == ranks.rank) expect(same_magnitude(mine, largest(ranks.size, count)), "a reduce");
    }
}

// Two threads, whose calls meet by their tags.
void threads(Ranks& ranks) {
  auto work = [&](std::uint32_t thread) {
    for (std::uint32_t i = 0; i < 200; ++i) {
      const std::size_t count = 1 + (i * 7919 + thread) % 40000;
      const std::vector<Complex> got = ranks.all_reduce(
          std::vector<Complex>(count, Complex(ranks.rank, thread)), add<Complex>, 1000 + 2 * i + thread);
      expect(got.back() == Complex(ranks.size * (ranks.size - 1) / 2.0, thread * ranks.size),
             "a thread's sum");
    }
  };
  std::thread other(work, 0);
  work(1);
  other.join();
  expect(strays == 0, "the thread that reduces");
}

void odd(Ranks& ranks) {
  std::vector<Triple> mine(1000);
  for (Triple& one : mine) one = {{1, 2, static_cast<float>(ranks.rank)}};
  for (const Triple& one : ranks.all_reduce(std::move(mine), add<Triple>))
    expect(one.of[0] == static_cast<float>(ranks.size), "a sum of elements of 12 bytes");
}

void throws(Ranks& ranks) {
  try {
    for (int i = 0; i < 50; ++i) ranks.all_reduce(values(ranks.rank, 1000), fails);
  } catch (const std::exception& error) {
    std::printf("raised: %s\n", error.what());
    return;
  }
  expect(false, "a call whose reduction has thrown");
}

}  // namespace

int main(int, char** words) {
  Ranks ranks{std::atoi(words[1]), std::atoi(words[2]), nullptr};
  gloo::transport::tcp::attr address("localhost");
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(words[3]);
  ranks.context = std::make_shared<gloo::rendezvous::Context>(ranks.rank, ranks.size);
  ranks.context->setTimeout(std::chrono::seconds(60));
  ranks.context->connectFullMesh(store, device);
  const std::string name = words[4];
  if (name == "own") own(ranks), reduced(ranks);
  if (name == "threads") threads(ranks);
  if (name == "odd") odd(ranks);
  if (name == "throws") throws(ranks);
  std::printf("program: rank %d is right\n", ranks.rank);
  std::fflush(stdout);
  return 0;
}
