#include "../RcppThread.h"
