#include "h5-stream.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#if defined(REGATTA_WITH_ZLIB)
#include <zlib.h>
#endif

namespace regatta {
namespace h5 {

namespace {

const std::size_t buffer_bytes = 65536;

DecodeResult result_of(Decoded how, int filter, std::size_t got = 0, std::size_t wanted = 0) {
  return DecodeResult{how, filter, got, wanted};
}
DecodeResult fine() { return result_of(Decoded::fine, 0); }

bool is_there(const std::vector<Filter>& filters, std::uint32_t mask, int id) {
  for (std::size_t k = 0; k < filters.size(); ++k) {
    if (filters[k].id == id) return !(k < 32 && (mask >> k & 1U));
  }
  return false;
}

}  // namespace

bool can_stream(const std::vector<Filter>& filters) {
  const int order[] = {filter_shuffle, filter_deflate, filter_fletcher32};
  std::size_t next = 0;
  for (const Filter& filter : filters) {
    while (next < 3 && order[next] != filter.id) ++next;
    if (next++ == 3) return false;
#if !defined(REGATTA_WITH_ZLIB)
    if (filter.id == filter_deflate) return false;
#endif
    if (filter.id == filter_shuffle && filter.values.empty()) return false;
  }
  return true;
}

/* A place in what comes out of the inflater, or in the file where nothing was deflated. */
class ChunkStream::Cursor {
 public:
  Cursor(const ChunkStream& of) : of_(of), taken_(0), given_(0), ended_(false) {
#if defined(REGATTA_WITH_ZLIB)
    std::memset(&stream_, 0, sizeof stream_);
    if (of_.deflated_ && inflateInit(&stream_) != Z_OK) throw std::bad_alloc();
#endif
  }
  /* One more at the same place. */
  Cursor(Cursor& other)
      : of_(other.of_), taken_(other.taken_), given_(other.given_), ended_(other.ended_) {
#if defined(REGATTA_WITH_ZLIB)
    std::memset(&stream_, 0, sizeof stream_);
    if (of_.deflated_ && inflateCopy(&stream_, &other.stream_) != Z_OK) throw std::bad_alloc();
    /* What is in the other's buffer is read once more. */
    taken_ -= stream_.avail_in;
    stream_.avail_in = 0;
#endif
  }
  Cursor& operator=(const Cursor&) = delete;
  ~Cursor() {
#if defined(REGATTA_WITH_ZLIB)
    if (of_.deflated_) inflateEnd(&stream_);
#endif
  }

  DecodeResult take(unsigned char* to, std::size_t size) {
    if (!of_.deflated_) {
      of_.read_(to, size, of_.at_ + given_);
      given_ += size;
      return fine();
    }
    const DecodeResult result = inflate_to(to, size);
    if (result.how != Decoded::fine || given_ < of_.bytes_) return result;
    return end();
  }

  DecodeResult skip(std::uint64_t size) {
    if (!of_.deflated_) {
      given_ += size;
      return fine();
    }
    std::vector<unsigned char> dropped(static_cast<std::size_t>(std::min<std::uint64_t>(size, buffer_bytes)));
    while (size > 0) {
      const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(size, dropped.size()));
      const DecodeResult result = inflate_to(dropped.data(), part);
      if (result.how != Decoded::fine) return result;
      size -= part;
    }
    return given_ < of_.bytes_ ? fine() : end();
  }

 private:
#if defined(REGATTA_WITH_ZLIB)
  DecodeResult inflate_to(unsigned char* to, std::size_t size) {
    stream_.next_out = to;
    std::size_t left = size;
    while (left > 0 && !ended_) {
      const std::size_t part = std::min<std::size_t>(left, std::size_t(1) << 30);
      stream_.avail_out = static_cast<uInt>(part);
      const DecodeResult result = step();
      const std::size_t got = part - stream_.avail_out;
      left -= got;
      given_ += got;
      if (result.how != Decoded::fine) return result;
    }
    if (left == 0) return fine();
    return result_of(Decoded::too_short, filter_deflate, static_cast<std::size_t>(given_),
                     static_cast<std::size_t>(of_.bytes_));
  }

  /* Behind the last byte come the end of the stream and its checksum. */
  DecodeResult end() {
    unsigned char more;
    while (!ended_) {
      stream_.next_out = &more;
      stream_.avail_out = 1;
      const DecodeResult result = step();
      if (result.how != Decoded::fine) return result;
      if (stream_.avail_out == 0) {
        return result_of(Decoded::too_long, filter_deflate, static_cast<std::size_t>(of_.bytes_) + 1,
                         static_cast<std::size_t>(of_.bytes_));
      }
    }
    return fine();
  }

  DecodeResult step() {
    if (stream_.avail_in == 0) {
      if (taken_ == of_.size_) return result_of(Decoded::damaged, filter_deflate);
      buffer_.resize(buffer_bytes);
      const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_bytes, of_.size_ - taken_));
      of_.read_(buffer_.data(), part, of_.at_ + taken_);
      taken_ += part;
      stream_.next_in = buffer_.data();
      stream_.avail_in = static_cast<uInt>(part);
    }
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    ended_ = status == Z_STREAM_END;
    if (status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR) return fine();
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    const bool sum = stream_.msg && std::strcmp(stream_.msg, "incorrect data check") == 0;
    return result_of(sum ? Decoded::checksum : Decoded::damaged, filter_deflate);
  }

  z_stream stream_;
  std::vector<unsigned char> buffer_;
#else
  DecodeResult inflate_to(unsigned char*, std::size_t) { return result_of(Decoded::damaged, filter_deflate); }
  DecodeResult end() { return fine(); }
#endif

  const ChunkStream& of_;
  std::uint64_t taken_, given_; /* of the stored bytes, of those that come out */
  bool ended_;
};

ChunkStream::ChunkStream(Read read, std::uint64_t at, std::uint64_t size, const std::vector<Filter>& filters,
                         std::uint32_t mask, std::uint64_t bytes)
    : read_(std::move(read)), at_(at), size_(size), bytes_(bytes), position_(0),
      deflated_(is_there(filters, mask, filter_deflate)), summed_(is_there(filters, mask, filter_fletcher32)),
      begun_(false), element_(1) {
  for (const Filter& filter : filters) {
    if (filter.id == filter_shuffle && is_there(filters, mask, filter_shuffle)) {
      element_ = std::max<std::size_t>(1, filter.values[0]);
    }
  }
}

ChunkStream::~ChunkStream() {}

DecodeResult ChunkStream::check_sum() {
  if (size_ < 4) return result_of(Decoded::too_short, filter_fletcher32, static_cast<std::size_t>(size_), 4);
  size_ -= 4;
  Fletcher32 sum;
  std::vector<unsigned char> buffer(buffer_bytes);
  for (std::uint64_t done = 0; done < size_; done += buffer_bytes) {
    const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_bytes, size_ - done));
    read_(buffer.data(), part, at_ + done);
    sum.add(buffer.data(), part);
  }
  unsigned char stored[4];
  read_(stored, 4, at_ + size_);
  return sum.is(stored) ? fine() : result_of(Decoded::checksum, filter_fletcher32);
}

DecodeResult ChunkStream::begin() {
  if (summed_) {
    const DecodeResult result = check_sum();
    if (result.how != Decoded::fine) return result;
  }
  if (!deflated_ && size_ != bytes_) {
    return result_of(size_ < bytes_ ? Decoded::too_short : Decoded::too_long, 0, static_cast<std::size_t>(size_),
                     static_cast<std::size_t>(bytes_));
  }
  cursors_.emplace_back(new Cursor(*this));
  const std::uint64_t plane = bytes_ / element_;
  /* All bytes of one place in an element lie together: the next are a plane further on. */
  while (cursors_.size() < element_) {
    std::unique_ptr<Cursor> next(new Cursor(*cursors_.back()));
    const DecodeResult result = next->skip(plane);
    if (result.how != Decoded::fine) return result;
    cursors_.push_back(std::move(next));
  }
  /* The checksum of deflate comes last: nothing is given out of a chunk that is damaged anywhere. */
  if (deflated_ && !summed_) {
    Cursor last(*cursors_.back());
    const DecodeResult result = last.skip(plane);
    if (result.how != Decoded::fine) return result;
  }
  begun_ = true;
  return fine();
}

DecodeResult ChunkStream::read(std::uint64_t begin_at, std::size_t size, unsigned char* to) {
  if (!begun_) {
    const DecodeResult result = begin();
    if (result.how != Decoded::fine) return result;
  }
  const std::size_t count = size / element_;
  planes_.resize(element_ > 1 ? size : 0);
  for (std::size_t b = 0; b < element_; ++b) {
    DecodeResult result = cursors_[b]->skip((begin_at - position_) / element_);
    if (result.how == Decoded::fine) {
      result = cursors_[b]->take(element_ > 1 ? planes_.data() + b * count : to, count);
    }
    if (result.how != Decoded::fine) return result;
  }
  if (element_ > 1) unshuffle(planes_.data(), size, element_, to);
  position_ = begin_at + size;
  return fine();
}

}  // namespace h5
}  // namespace regatta
