// Netty's HashedWheelTimer, in a Java program of its own that is compiled when it is first needed.
#ifndef COUNTWHEEL_BENCH_PEERS_NETTY_PEER_H_
#define COUNTWHEEL_BENCH_PEERS_NETTY_PEER_H_

#include <string>

namespace countwheel::bench {

// Why it cannot be measured here; empty if it can.
std::string netty_missing();
void register_netty_rows();

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_NETTY_PEER_H_
