// fmt without its library, so that nothing is loaded into foreign processes, and without compiling it in
// every file that formats a text, which took longer than the rest of most of them: the headers declare what
// is no template, and the definitions are here, once.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

namespace ddl {
namespace {

template <class Function>
struct Used {
  Function* function;
};

}  // namespace

// Whose address is taken is there for other files to link.
[[gnu::used]] const Used<std::string(fmt::string_view, fmt::format_args)> fmt_vformat{&fmt::vformat};
[[gnu::used]] const Used<void(std::FILE*, fmt::string_view, fmt::format_args)> fmt_vprint{&fmt::vprint};
[[gnu::used]] const Used<void(fmt::string_view, fmt::format_args)> fmt_print{&fmt::vprint};
[[gnu::used]] const Used<void(const char*)> fmt_error{&fmt::detail::throw_format_error};
[[gnu::used]] const Used<bool(std::uint32_t)> fmt_is_printable{&fmt::detail::is_printable};

[[gnu::used]] const Used<void(fmt::detail::buffer<char>&, fmt::string_view,
                              fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref)>
    fmt_vformat_to{&fmt::detail::vformat_to<char>};
[[gnu::used]] const Used<void(const char*, int, const char*)> fmt_assert{&fmt::detail::assert_fail};
namespace dragonbox = fmt::detail::dragonbox;
[[gnu::used]] const Used<dragonbox::decimal_fp<float>(float)> fmt_float{&dragonbox::to_decimal<float>};
[[gnu::used]] const Used<dragonbox::decimal_fp<double>(double)> fmt_double{&dragonbox::to_decimal<double>};
[[gnu::used]] const Used<fmt::detail::thousands_sep_result<char>(fmt::detail::locale_ref)> fmt_thousands{
    &fmt::detail::thousands_sep_impl<char>};
[[gnu::used]] const Used<char(fmt::detail::locale_ref)> fmt_decimal_point{
    &fmt::detail::decimal_point_impl<char>};

}  // namespace ddl
