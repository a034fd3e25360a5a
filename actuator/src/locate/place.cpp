#include "locate/place.h"

#include <algorithm>

namespace osml {

std::string absent_in_words(const std::vector<Place>& places) {
  std::string words;
  for (const Place& place : places) {
    if (place.absent && !place.watched) words += (words.empty() ? "" : ", ") + place.service + " (" + place.why + ")";
  }
  return words;
}

Error absent_error(const std::string& in_words) {
  return {ErrorKind::Absent, "services that are not there: " + in_words + "; start them, or correct their match", 0};
}

const Place* place_of(const std::vector<Place>& places, const std::string& service) {
  const auto found =
      std::find_if(places.begin(), places.end(), [&](const Place& place) { return place.service == service; });
  return found == places.end() ? nullptr : &*found;
}

}  // namespace osml
