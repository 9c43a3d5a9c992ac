#ifndef REGATTA_H5_VIRTUAL_HPP
#define REGATTA_H5_VIRTUAL_HPP

#include "h5-dataset.hpp"

namespace regatta {
namespace h5 {

/* The library gives fill values for sources of a virtual dataset that are not there, as if they were
   data. Throws a Failure that names the first such source. */
void check_sources(const Library& library, const FileId& file, const DatasetId& dataset,
                   const Facts& facts);

}  // namespace h5
}  // namespace regatta

#endif
