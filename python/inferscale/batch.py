"""What a launch moves, put together in arrays that the library reads where they are."""

from array import array

from . import abi


class Batch:
    """Records, and requests with their spans and block tables. May be launched any number of times, and cleared."""

    def __init__(self):
        # A record is 80 bytes: ten numbers, the last one its tokens and encoding.
        self.records, self.spans, self.requests = array("Q"), array("I"), array("I")
        self.tables, self.blocks = array("I"), array("i")
        self._struct = abi.sized(abi.Batch)

    def clear(self):
        for numbers in (self.records, self.spans, self.requests, self.tables, self.blocks):
            del numbers[:]

    @property
    def record_count(self):
        return len(self.records) // 10

    def add_record(self, payload, payload_bytes, tokens, encoding, *, stamp=0, expected=(0, 0, 0, 0), origin=0,
                   calibration=0):
        """Addresses are integers. expected: id[0], id[1], version, generation. Returns the record's index."""
        self.records.extend((payload, payload_bytes, stamp or 0, origin or 0, *expected, calibration or 0,
                             tokens | encoding << 32))
        return self.record_count - 1

    def add_request(self, spans, tables):
        """spans: (record, record_first, tokens, position) each. tables: block ids of each cache group."""
        first = len(self.spans) // 4
        for span in spans:
            self.spans.extend(span)
        self.requests.extend((first, len(self.spans) // 4 - first))
        for table in tables:
            self.tables.extend((len(self.blocks), len(table)))
            self.blocks.extend(table)

    def struct(self):
        """Valid until something is added."""
        batch = self._struct
        batch.records, _ = self.records.buffer_info()
        batch.spans, _ = self.spans.buffer_info()
        batch.requests, _ = self.requests.buffer_info()
        batch.tables, _ = self.tables.buffer_info()
        batch.blocks, batch.block_count = self.blocks.buffer_info()
        batch.record_count, batch.span_count = self.record_count, len(self.spans) // 4
        batch.request_count = len(self.requests) // 2
        return batch
