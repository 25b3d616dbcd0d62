// Inject, extract and their tickets.
#include "capi/api_call.h"
#include "capi/handles.h"
#include "inferscale/inferscale.h"

namespace inferscale::capi {
namespace {

tl::unexpected<Error> Bad(const char* what) { return Fail(ErrorCode::kInvalidArgument, what); }

inferscale_status Launch(inferscale_transfer* handle, const inferscale_batch* batch, kernels::KvDirection direction,
                         void* stream, uint64_t* ticket) {
  return Call([&]() -> Status {
    TRY_ASSIGN(const std::shared_ptr<Transfer> transfer, AllTransfers().Find(handle));
    if (ticket == nullptr) return Bad("ticket is null: nobody could collect the launch");
    TRY_ASSIGN(*ticket, transfer->Launch(batch, direction, stream));
    return {};
  });
}

}  // namespace
}  // namespace inferscale::capi

using namespace inferscale;
using namespace inferscale::capi;

inferscale_status inferscale_transfer_open(inferscale_device* device, const inferscale_transfer_options* options,
                                           inferscale_transfer** transfer) {
  return Call([&]() -> Status {
    TRY_ASSIGN(std::shared_ptr<Backend> backend, AllDevices().Find(device));
    if (transfer == nullptr) return Bad("transfer is null: there is no place for the handle");
    TRY_ASSIGN(std::shared_ptr<Transfer> opened, Transfer::Open(std::move(backend), options));
    TRY_ASSIGN(*transfer, AllTransfers().Add(std::move(opened)));
    return {};
  });
}

inferscale_status inferscale_transfer_close(inferscale_transfer* transfer) {
  return Call([&]() -> Status {
    TRY(AllTransfers().Take(transfer));
    return {};
  });
}

inferscale_status inferscale_inject(inferscale_transfer* transfer, const inferscale_batch* batch, void* stream,
                                    uint64_t* ticket) {
  return Launch(transfer, batch, kernels::KvDirection::kInject, stream, ticket);
}

inferscale_status inferscale_extract(inferscale_transfer* transfer, const inferscale_batch* batch, void* stream,
                                     uint64_t* ticket) {
  return Launch(transfer, batch, kernels::KvDirection::kExtract, stream, ticket);
}

inferscale_status inferscale_transfer_poll(inferscale_transfer* handle, uint64_t ticket, uint32_t* words,
                                           uint32_t word_count) {
  return Call([&]() -> Result<inferscale_status> {
    TRY_ASSIGN(const std::shared_ptr<Transfer> transfer, AllTransfers().Find(handle));
    return transfer->Poll(ticket, words, word_count);
  });
}

inferscale_status inferscale_transfer_wait(inferscale_transfer* handle, uint64_t ticket, uint32_t* words,
                                           uint32_t word_count) {
  return Call([&]() -> Result<inferscale_status> {
    TRY_ASSIGN(const std::shared_ptr<Transfer> transfer, AllTransfers().Find(handle));
    return transfer->Wait(ticket, words, word_count);
  });
}
