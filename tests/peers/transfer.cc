// SPDX-License-Identifier: GPL-3.0-or-later
// One bulk transfer in ns-3, over the path that the scenario `geo` has without a VPN and a PEP:
//
//     server ── pop ── gw ── sat ══ st ── box ── pc      7 nodes, as here
//     server ── gw ══ st ── pc                           4 nodes, the least that has the same packets
//
// The satellite link has a rate, a delay, a queue before the delay, and random loss, in each
// direction. The receiver's time is measured, from the first byte to the last, as iperf3's client
// does it in reverse mode. With a capture every link has a pcap file with each packet, in each
// direction once, as our run captures them. Prints one line of JSON.

#include <cstdint>
#include <iostream>
#include <string>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

constexpr std::uint16_t PORT = 5201;
constexpr double ETHERNET_FRAME_BYTES = 1514.0; // what our link counts of a full packet
constexpr double PPP_FRAME_BYTES = 1502.0;      // what PointToPointNetDevice counts of it

std::uint64_t received_bytes;
Time first_arrival;
Time last_arrival;
Time slow_start_end;
std::uint32_t cwnd_at_slow_start_end_bytes;
std::uint32_t cwnd_bytes;
std::uint64_t queue_drops;
std::uint64_t link_losses;
std::uint64_t recoveries, timeouts;       // how often loss recovery began, and how
std::uint64_t sent_segments, sent_bytes;  // of data, with retransmits
std::uint64_t acks;                       // without data, of the receiver
double cwnd_before_packets, cwnd_after_packets; // sums over recoveries: at their begin and end
double window_packets_s;                  // cwnd outside recovery, integrated
Time window_s, window_since;              // the time of that
bool in_recovery;
Time recovery_end;
double jump_packets; // by which the window grows with the ACK that ends a recovery, summed up

void OnArrival(Ptr<const Packet> packet, const Address &) {
    if (received_bytes == 0)
        first_arrival = Simulator::Now();
    received_bytes += packet->GetSize();
    last_arrival = Simulator::Now();
}

// A control of ns-3, but the ACK that ends a recovery does not let the window grow. ns-3 counts all that
// this ACK covers, a whole window from before the recovery; Linux counted each packet as it was SACKed.
template <class Control> class WithoutJump : public Control {
  public:
    static TypeId GetTypeId() {
        static TypeId made = TypeId(Control::GetTypeId().GetName() + "WithoutJump")
                                 .SetParent<Control>()
                                 .template AddConstructor<WithoutJump>();
        return made;
    }
    void CongestionStateSet(Ptr<TcpSocketState> socket, const TcpSocketState::TcpCongState_t now) override {
        ended_ = socket->m_congState == TcpSocketState::CA_RECOVERY && now == TcpSocketState::CA_OPEN;
        Control::CongestionStateSet(socket, now);
    }
    void IncreaseWindow(Ptr<TcpSocketState> socket, std::uint32_t acked) override {
        if (!ended_)
            Control::IncreaseWindow(socket, acked);
        ended_ = false;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<WithoutJump>(this); }

  private:
    bool ended_ = false;
};

void CountWindow() {
    const Time now = Simulator::Now();
    if (!in_recovery) {
        window_packets_s += cwnd_bytes / 1448.0 * (now - window_since).GetSeconds();
        window_s += now - window_since;
    }
    window_since = now;
}

void OnWindow(std::uint32_t before, std::uint32_t now) {
    CountWindow();
    // What the ACK that ended a recovery still does to the window.
    if (recovery_end == Simulator::Now() && now > before)
        jump_packets += (now - before) / 1448.0;
    cwnd_bytes = now;
}

void OnState(TcpSocketState::TcpCongState_t before, TcpSocketState::TcpCongState_t now) {
    CountWindow();
    const bool lost = now == TcpSocketState::CA_RECOVERY || now == TcpSocketState::CA_LOSS;
    if (now == TcpSocketState::CA_RECOVERY)
        recoveries++, cwnd_before_packets += cwnd_bytes / 1448.0;
    if (now == TcpSocketState::CA_LOSS)
        timeouts++;
    if (before == TcpSocketState::CA_RECOVERY && !lost)
        cwnd_after_packets += cwnd_bytes / 1448.0;
    if (in_recovery && !lost)
        recovery_end = Simulator::Now();
    in_recovery = lost;
}

void OnSent(Ptr<const Packet> packet, const TcpHeader &, Ptr<const TcpSocketBase>) {
    sent_segments += packet->GetSize() > 0;
    sent_bytes += packet->GetSize();
}
void OnReceived(Ptr<const Packet> packet, const TcpHeader &, Ptr<const TcpSocketBase>) { acks += packet->GetSize() == 0; }

void OnThreshold(std::uint32_t, std::uint32_t now) {
    if (slow_start_end.IsZero() && now < INT32_MAX) {
        slow_start_end = Simulator::Now();
        cwnd_at_slow_start_end_bytes = cwnd_bytes;
    }
}

void OnQueueDrop(Ptr<const Packet>) { queue_drops++; }

void OnLinkLoss(Ptr<const Packet>) { link_losses++; }

// The sender's socket exists only once the application has started.
void WatchSender() {
    const std::string socket = "/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/";
    Config::ConnectWithoutContext(socket + "CongestionWindow", MakeCallback(&OnWindow));
    Config::ConnectWithoutContext(socket + "SlowStartThreshold", MakeCallback(&OnThreshold));
    Config::ConnectWithoutContext(socket + "CongState", MakeCallback(&OnState));
    Config::ConnectWithoutContext(socket + "Tx", MakeCallback(&OnSent));
    Config::ConnectWithoutContext(socket + "Rx", MakeCallback(&OnReceived));
}

void LoseAtRandom(Ptr<NetDevice> receiver, double loss_pct) {
    auto model = CreateObject<RateErrorModel>();
    model->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    model->SetRate(loss_pct / 100.0);
    receiver->SetAttribute("ReceiveErrorModel", PointerValue(model));
    receiver->TraceConnectWithoutContext("PhyRxDrop", MakeCallback(&OnLinkLoss));
}

} // namespace

int main(int argc, char *argv[]) {
    std::string cc = "TcpCubic";
    double rate_bps = 10e6, delay_ms = 250.0, loss_pct = 0.0, min_rto_s = 1.0;
    std::uint64_t size_bytes = 30'000'000;
    std::uint32_t buffer_bytes = 625'000, seed = 1, node_count = 7;
    std::string capture;
    CommandLine command(__FILE__);
    command.AddValue("cc", "TcpCubic or TcpLinuxReno, each also with WithoutJump behind it", cc);
    command.AddValue("rate_bps", "rate of the satellite link, of Ethernet frames", rate_bps);
    command.AddValue("delay_ms", "one-way delay of the satellite link", delay_ms);
    command.AddValue("loss_pct", "random loss in each direction", loss_pct);
    command.AddValue("size_bytes", "what the server sends", size_bytes);
    command.AddValue("buffer_bytes", "queue before the satellite link", buffer_bytes);
    command.AddValue("min_rto_s", "least retransmission timeout", min_rto_s);
    command.AddValue("seed", "of the random loss", seed);
    command.AddValue("nodes", "7 or 4", node_count);
    command.AddValue("capture", "begin of the pcap files' names; none: no capture", capture);
    command.Parse(argc, argv);
    if (node_count != 7 && node_count != 4) {
        std::cerr << "transfer: --nodes=" << node_count << ": 7 or 4\n";
        return 2;
    }
    RngSeedManager::SetRun(seed);
    // So that they are found by their names.
    WithoutJump<TcpLinuxReno>::GetTypeId(), WithoutJump<TcpCubic>::GetTypeId();

    // As the job transport_profile and Linux have it: 10 segments at first, buffers that never limit.
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + cc)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1U << 27));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1U << 27));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(min_rto_s)));

    NodeContainer nodes;
    nodes.Create(node_count); // the first is the server, the last the pc
    const std::uint32_t gateway = node_count == 7 ? 3 : 1; // at the satellite link's begin
    InternetStackHelper().Install(nodes);

    PointToPointHelper lan;
    lan.SetDeviceAttribute("DataRate", DataRateValue(DataRate("10Gbps")));
    PointToPointHelper satellite;
    const double ppp_rate_bps = rate_bps * PPP_FRAME_BYTES / ETHERNET_FRAME_BYTES;
    satellite.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<std::uint64_t>(ppp_rate_bps))));
    satellite.SetChannelAttribute("Delay", TimeValue(MicroSeconds(static_cast<std::int64_t>(delay_ms * 1000))));
    satellite.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, buffer_bytes)));

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer last;
    for (std::uint32_t node = 0; node + 1 < node_count; node++) {
        PointToPointHelper &link = node == gateway ? satellite : lan;
        const NetDeviceContainer ends = link.Install(nodes.Get(node), nodes.Get(node + 1));
        last = addresses.Assign(ends);
        addresses.NewNetwork();
        // By default ns-3 puts fq_codel before each device, which would be a second queue.
        TrafficControlHelper().Uninstall(ends);
        if (node == gateway) {
            LoseAtRandom(ends.Get(0), loss_pct);
            LoseAtRandom(ends.Get(1), loss_pct);
        }
        if (!capture.empty())
            link.EnablePcap(capture, ends.Get(0), true);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    // A full queue of the device stops the layer above, which then drops.
    Config::ConnectWithoutContext("/NodeList/" + std::to_string(gateway) + "/$ns3::TrafficControlLayer/TcDrop",
                                  MakeCallback(&OnQueueDrop));

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    auto sinks = sink.Install(nodes.Get(node_count - 1));
    sinks.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&OnArrival));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(last.GetAddress(1), PORT));
    source.SetAttribute("MaxBytes", UintegerValue(size_bytes));
    source.SetAttribute("SendSize", UintegerValue(1U << 16));
    source.Install(nodes.Get(0));
    Simulator::Schedule(MicroSeconds(1), &WatchSender);
    Simulator::Run();
    Simulator::Destroy();

    if (received_bytes != size_bytes) {
        std::cerr << "transfer: " << received_bytes << " of " << size_bytes << " bytes arrived\n";
        return 1;
    }
    std::cout << "{\"transfer_time_s\": " << (last_arrival - first_arrival).GetSeconds()
              << ", \"slow_start_end_s\": " << (slow_start_end.IsZero() ? -1.0 : (slow_start_end - first_arrival).GetSeconds())
              << ", \"cwnd_at_slow_start_end_packets\": " << cwnd_at_slow_start_end_bytes / 1448
              << ", \"recoveries\": " << recoveries << ", \"timeouts\": " << timeouts
              << ", \"sent_segments\": " << sent_segments << ", \"sent_bytes\": " << sent_bytes << ", \"acks\": " << acks
              << ", \"cwnd_at_loss_packets\": " << (recoveries ? cwnd_before_packets / recoveries : 0.0)
              << ", \"cwnd_after_packets\": " << (recoveries ? cwnd_after_packets / recoveries : 0.0)
              << ", \"cwnd_mean_packets\": " << (window_s.IsZero() ? 0.0 : window_packets_s / window_s.GetSeconds())
              << ", \"jump_packets\": " << (recoveries ? jump_packets / recoveries : 0.0)
              << ", \"recovery_s\": " << ((last_arrival - first_arrival) - window_s).GetSeconds()
              << ", \"queue_drops\": " << queue_drops << ", \"link_losses\": " << link_losses << "}\n";
    return 0;
}
