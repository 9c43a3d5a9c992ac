#ifndef REGATTA_CORE_INVOKE_HPP
#define REGATTA_CORE_INVOKE_HPP

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// What C++14 and C++17 have in the standard library and C++11 does not.
template <std::size_t...>
struct Indices {};
template <std::size_t N, std::size_t... Rest>
struct MakeIndices : MakeIndices<N - 1, N - 1, Rest...> {};
template <std::size_t... Rest>
struct MakeIndices<0, Rest...> {
  using type = Indices<Rest...>;
};

template <class F, class... Args>
auto call(F&& f, Args&&... args) -> typename std::enable_if<
    !std::is_member_pointer<typename std::decay<F>::type>::value,
    decltype(std::forward<F>(f)(std::forward<Args>(args)...))>::type {
  return std::forward<F>(f)(std::forward<Args>(args)...);
}

template <class F, class... Args>
auto call(F&& f, Args&&... args) -> typename std::enable_if<
    std::is_member_pointer<typename std::decay<F>::type>::value,
    decltype(std::mem_fn(f)(std::forward<Args>(args)...))>::type {
  return std::mem_fn(f)(std::forward<Args>(args)...);
}

// Whether f takes the arguments as values that are given away, as std::thread passes them. If it
// does not (it takes one by reference), it gets them as variables.
template <class F, class... Args>
auto takes_values(int)
    -> decltype(static_cast<void>(detail::call(std::declval<F&>(), std::declval<Args>()...)),
                std::true_type());
template <class F, class... Args>
std::false_type takes_values(...);

template <class F, class... Args>
struct Passing {
  static constexpr bool values = decltype(takes_values<F, Args...>(0))::value;
  template <class Arg>
  using As = typename std::conditional<values, Arg&&, Arg&>::type;
  using Result = decltype(detail::call(std::declval<F&>(), std::declval<As<Args>>()...));
};

// What a Bound of the function and arguments returns.
template <class F, class... Args>
using Result =
    typename Passing<typename std::decay<F>::type, typename std::decay<Args>::type...>::Result;

// A function and copies of its arguments, to be called once. std::ref() passes the original.
template <class F, class... Args>
class Bound {
 public:
  template <class G, class... Given>
  explicit Bound(std::true_type, G&& f, Given&&... args)
      : f_(std::forward<G>(f)), args_(std::forward<Given>(args)...) {}

  Result<F, Args...> operator()() { return apply(typename MakeIndices<sizeof...(Args)>::type()); }

 private:
  template <std::size_t... I>
  Result<F, Args...> apply(Indices<I...>) {
    using How = Passing<F, Args...>;
    return detail::call(f_, static_cast<typename How::template As<Args>>(std::get<I>(args_))...);
  }

  F f_;
  std::tuple<Args...> args_;
};

template <class F, class... Args>
using BoundTo = Bound<typename std::decay<F>::type, typename std::decay<Args>::type...>;

template <class F, class... Args>
BoundTo<F, Args...> bind_call(F&& f, Args&&... args) {
  return BoundTo<F, Args...>(std::true_type(), std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
