#include <regatta/core.hpp>
#include <vector>

#include "check.hpp"
#include "host.hpp"

namespace {

struct Item {
  Item() : number(-1), value(0) {}
  int number;
  long value;
};

// Gives out the numbers below `end`, and looks that one thread at a time asks.
class Source {
 public:
  explicit Source(int end) : end_(end), next_(0), inside_(0), crossed_(0) {}
  bool operator()(Item& item) {
    crossed_ += ++inside_ > 1;
    const bool more = next_ < end_;
    if (more) item.number = next_++;
    --inside_;
    return more;
  }
  int given() const { return next_; }
  bool was_alone() const { return crossed_.load() == 0; }

 private:
  const int end_;
  int next_;
  std::atomic<int> inside_, crossed_;
};

}  // namespace

TEST(pipeline_combines_in_order) {
  for (std::size_t threads : {1U, 2U, 4U}) {
    for (std::size_t in_flight : {0U, 1U, 2U, 7U}) {
      for (int size : {0, 1, 2, 500}) {
        Source source(size);
        std::vector<int> seen;
        std::atomic<int> now(0), most(0);
        long sum = 0;
        regatta::parallelPipeline<Item>(
            [&](Item& item) {
              const bool more = source(item);
              if (more && ++now > most) most = now.load();
              return more;
            },
            [](Item& item) { item.value = 3L * item.number; },
            [&](Item& item) {
              seen.push_back(item.number);
              sum += item.value;
              --now;
            }, in_flight, threads);
        bool in_order = seen.size() == static_cast<std::size_t>(size);
        for (std::size_t i = 0; i < seen.size(); ++i) in_order = in_order && seen[i] == int(i);
        CHECK(in_order);
        CHECK(sum == 3L * size * (size - 1) / 2);
        CHECK(source.was_alone());
        CHECK(most.load() <= static_cast<int>(in_flight > 0 ? in_flight : 4 * threads));
        CHECK(now.load() == 0);
      }
    }
  }
}

TEST(pipeline_transforms_side_by_side) {
  Source source(8);
  std::atomic<int> arrived(0);
  regatta::parallelPipeline<Item>(source, [&](Item&) {
    const int partner = (arrived.fetch_add(1) / 2 + 1) * 2;
    CHECK(check::wait_until([&] { return arrived.load() >= partner; }));
  }, [](Item&) {}, 0, 2);
  CHECK(arrived.load() == 8);
}

TEST(pipeline_throws_for_the_first_item) {
  for (std::size_t threads : {2U, 4U}) {
    // Item 5 fails after item 6 has, which is in flight beside it.
    Source source(1000);
    std::atomic<bool> six(false);
    int combined = 0;
    CHECK(check::thrown([&] {
      regatta::parallelPipeline<Item>(source, [&](Item& item) {
        if (item.number == 6) {
          six = true;
          throw std::runtime_error("six");
        }
        if (item.number != 5) return;
        CHECK(check::wait_until([&] { return six.load(); }));
        throw std::runtime_error("five");
      }, [&](Item& item) { combined += item.number < 5; }, 8, threads);
    }) == "five");
    CHECK(combined == 5);
    CHECK(source.given() < 20);
  }
  for (std::size_t threads : {1U, 4U}) {
    Source source(1000);
    int combined = 0;
    const auto combine = [&](Item&) { ++combined; };
    CHECK(check::thrown([&] {
      regatta::parallelPipeline<Item>([&](Item& item) {
        if (source.given() == 40) regatta::stop("no item 40");
        return source(item);
      }, [](Item&) {}, combine, 8, threads);
    }) == "no item 40");
    CHECK(combined == 40);
    Source other(1000);
    CHECK(check::thrown([&] {
      regatta::parallelPipeline<Item>(other, [](Item&) {}, [](Item& item) {
        if (item.number == 7) regatta::stop("no place for 7");
      }, 8, threads);
    }) == "no place for 7");
  }
}

TEST(pipeline_can_be_cancelled_and_interrupted) {
  for (std::size_t threads : {1U, 3U}) {
    Source source(1 << 30);
    regatta::Cancellation token;
    regatta::parallelPipeline<Item>(source, [](Item&) {}, [&](Item& item) {
      if (item.number == 100) token.request();
    }, token, 0, threads);
    CHECK(source.given() < 1000);

    Source endless(1 << 30);
    fake_host::interrupt = false;
    bool interrupted = false;
    try {
      regatta::parallelPipeline<Item>(endless, [](Item& item) {
        if (item.number == 10) fake_host::interrupt = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }, [](Item&) {}, 0, threads);
    } catch (const regatta::UserInterruptException&) {
      interrupted = true;
    }
    CHECK(interrupted);
    CHECK(!fake_host::interrupt.exchange(false));
  }
}

TEST(pipelines_in_bodies_hear_of_what_is_around_them) {
  std::atomic<bool> begun(false), completed(false);
  CHECK(check::thrown([&] {
    regatta::parallelFor(0, 2, [&](int i) {
      if (i == 1) {
        check::wait_until([&] { return begun.load(); });
        throw std::runtime_error("outer");
      }
      Source source(1 << 30);
      regatta::parallelPipeline<Item>(source, [&](Item&) {
        begun = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }, [](Item&) {});
      completed = true;
    }, 2, 2);
  }) == "outer");
  CHECK(!completed.load());
}
