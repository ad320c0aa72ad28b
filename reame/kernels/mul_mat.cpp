// ggml's matrix product for types of weights that it computes slowly when a few rows share a step, and with other bits.
//
// Each result has the bits of ggml's AVX2 vec_dot for any number of rows, so that crowds, drafts and chunks of any size
// change no text.
//
// A type of weights is a struct with `Weight` and `Activation`, ggml's blocks of `block` numbers; `quantize`, what
// makes the latter; `Column`, activations ready to be read; `Unpacked`, a block of weights ready for many columns;
// `Packed`, one that is unpacked on the way, for few; `Sums<N>`, of one row of weights with N columns. To unpack is
// most of what one column costs: with many, each row of weights is unpacked once and stays in the processor's caches
// while the columns pass in groups (as in BLIS and ik_llama.cpp).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "inside_ggml.h"
#include "k_quants.h"
#include "q4_1.h"

namespace reame {

constexpr int GROUP = 6;  // columns whose sums fit into the registers
constexpr int TILE = 16;  // rows of weights that are unpacked together: about half of a cache of the second level
constexpr size_t AHEAD = 4096;  // bytes; 1 to 4 KiB are alike
constexpr int CHUNKS = 16;  // per thread, so that a thread that is held up does not hold up the others

struct Product {
    const char *weights;
    size_t weight_stride;
    int rows, blocks, columns;
    char *activations;
    size_t activation_stride;
    char *out;
    size_t out_stride;
};

template <class Type>
typename Type::Activation *activations(const Product &p, int column) {
    return reinterpret_cast<typename Type::Activation *>(p.activations + column * p.activation_stride);
}

// The processor looks ahead by itself, but not beyond the end of a page, and a row of weights is a fraction of one.
template <class Weight>
inline void prefetch(const Weight &soon) {
    const char *ahead = reinterpret_cast<const char *>(&soon) + AHEAD;
    for (size_t line = 0; line < sizeof(Weight); line += 64) _mm_prefetch(ahead + line, _MM_HINT_T0);
}

template <class Type>
struct InCache {
    const typename Type::Unpacked *row;
    const typename Type::Unpacked &operator()(int i) const { return row[i]; }
};
template <class Type>
struct InMemory {
    const typename Type::Weight *row;
    typename Type::Packed operator()(int i) const {
        prefetch(row[i]);
        return typename Type::Packed(row[i]);
    }
};

// One row of weights by N columns.
template <class Type, int N, class Blocks>
void multiply(const Product &p, Blocks blocks, const typename Type::Column *columns, int row, int column) {
    typename Type::template Sums<N> sums;
    for (int i = 0; i < p.blocks; ++i) sums.add(blocks(i), columns, i);
    for (int c = 0; c < N; ++c) reinterpret_cast<float *>(p.out + (column + c) * p.out_stride)[row] = sums.value(c);
}

template <class Type, class Blocks>
void multiply(const Product &p, Blocks blocks, const typename Type::Column *columns, int row, int column, int n) {
    switch (n) {
        case 1: return multiply<Type, 1>(p, blocks, columns, row, column);
        case 2: return multiply<Type, 2>(p, blocks, columns, row, column);
        case 3: return multiply<Type, 3>(p, blocks, columns, row, column);
        case 4: return multiply<Type, 4>(p, blocks, columns, row, column);
        case 5: return multiply<Type, 5>(p, blocks, columns, row, column);
        default: return multiply<Type, GROUP>(p, blocks, columns, row, column);
    }
}

// What a thread keeps from one product to the next.
template <class Type>
struct Room {
    std::vector<typename Type::Unpacked> unpacked;
    std::vector<typename Type::Column> columns;
    std::vector<float> floats;

    void take(const Product &p) {
        const size_t each = size_t(p.blocks) * Type::Column::floats;
        columns.clear();
        floats.resize(each * p.columns);
        for (int c = 0; c < p.columns; ++c) {
            columns.emplace_back(activations<Type>(p, c), p.blocks, floats.data() + c * each);
        }
    }
};

// Rows `first` to `last` of the weights by all columns.
template <class Type>
void multiply_rows(const Product &p, int first, int last, Room<Type> &room) {
    const typename Type::Column *columns = room.columns.data();
    const auto weights = [&](int row) {
        return reinterpret_cast<const typename Type::Weight *>(p.weights + row * p.weight_stride);
    };
    if (p.columns <= GROUP) {
        for (int row = first; row < last; ++row)
            multiply<Type>(p, InMemory<Type>{weights(row)}, columns, row, 0, p.columns);
        return;
    }
    const int groups = (p.columns + GROUP - 1) / GROUP;
    for (int tile = first; tile < last; tile += TILE) {
        const int end = std::min(tile + TILE, last);
        room.unpacked.clear();
        for (int row = tile; row < end; ++row)
            for (int i = 0; i < p.blocks; ++i) {
                prefetch(weights(row)[i]);
                room.unpacked.emplace_back(weights(row)[i]);
            }
        for (int g = 0, column = 0; g < groups; ++g) {
            const int n = int(int64_t(p.columns) * (g + 1) / groups) - column;
            for (int row = tile; row < end; ++row) {
                const InCache<Type> blocks{room.unpacked.data() + size_t(row - tile) * p.blocks};
                multiply<Type>(p, blocks, columns + column, row, column, n);
            }
            column += n;
        }
    }
}

// This thread's part of the activations, from floats into the buffer that ggml has reserved for them.
template <class Type>
void quantize(const ggml_compute_params *params, const ggml_tensor *floats, const Product &p) {
    const int first = p.blocks * params->ith / params->nth, last = p.blocks * (params->ith + 1) / params->nth;
    for (int c = 0; c < p.columns; ++c) {
        const auto *from = reinterpret_cast<const float *>(static_cast<const char *>(floats->data) + c * floats->nb[1]);
        auto *to = activations<Type>(p, c);
        (ggml.*Type::quantize)(from + int64_t(first) * Type::block, to + first, int64_t(last - first) * Type::block);
        Type::Column::prepare(to + first, last - first);
    }
}

template <class Type>
bool run(const ggml_compute_params *params, ggml_tensor *dst) {
    const ggml_tensor *weights = dst->src[0], *activations = dst->src[1];
    const int64_t blocks = weights->ne[0] / Type::block;
    const size_t stride = blocks * sizeof(typename Type::Activation);
    if (weights->nb[0] != sizeof(typename Type::Weight) || params->wsize < stride * activations->ne[1]) return false;
    const Product p{static_cast<const char *>(weights->data), weights->nb[1], int(weights->ne[1]), int(blocks),
                    int(activations->ne[1]), static_cast<char *>(params->wdata), stride,
                    static_cast<char *>(dst->data), dst->nb[1]};
    quantize<Type>(params, activations, p);

    static thread_local Room<Type> room;
    const int tiles = p.rows / TILE, chunks = std::max(1, std::min(params->nth * CHUNKS, tiles));
    const auto start = [&](int chunk) { return chunk < chunks ? int(int64_t(tiles) * chunk / chunks) * TILE : p.rows; };
    bool taken = false;
    share(params, chunks, [&](int chunk) {
        if (!taken) room.take(p);
        taken = true;
        multiply_rows(p, start(chunk), start(chunk + 1), room);
    });
    return true;
}

bool is_plain(const ggml_tensor *dst) {
    const ggml_tensor *weights = dst->src[0], *activations = dst->src[1];
    return weights->ne[2] == 1 && weights->ne[3] == 1 && activations->ne[2] == 1 && activations->ne[3] == 1 &&
           activations->type == GGML_TYPE_F32 && activations->nb[0] == sizeof(float) && dst->nb[0] == sizeof(float) &&
           dst->type == GGML_TYPE_F32;
}

// What `work` says of the type of weights with ggml's number `type`; false when it is none of ours.
template <class Work>
bool with_type(int type, Work work) {
    switch (type) {
        case GGML_TYPE_Q4_1: return work(Q41());
        case GGML_TYPE_Q4_K: return work(KQuant<Q4K>());
        case GGML_TYPE_Q5_K: return work(KQuant<Q5K>());
        case GGML_TYPE_Q6_K: return work(KQuant<Q6K>());
        default: return false;
    }
}

bool computed(const ggml_compute_params *params, ggml_tensor *dst) {
    if (!on || params->use_ref || !is_plain(dst)) return false;
    return with_type(dst->src[0]->type, [&](auto type) { return run<decltype(type)>(params, dst); });
}

// A product without threads, of activations as ggml quantizes them, which are prepared in place.
template <class Type>
void multiply_alone(const Product &p) {
    Room<Type> room;
    for (int c = 0; c < p.columns; ++c)
        Type::Column::prepare(activations<Type>(p, c), p.blocks);
    room.take(p);
    multiply_rows(p, 0, p.rows, room);
}

}  // namespace reame

extern "C" void ggml_compute_forward_mul_mat(const ggml_compute_params *params, ggml_tensor *dst) {
    if (!reame::computed(params, dst)) reame::ggml.ggml_compute_forward_mul_mat(params, dst);
}

// For checks, see `engine/kernels.py`. `weights`: rows of `blocks` blocks, one behind the other, and so are the columns
// of `activations`; `out`: `rows` floats for each column. False: not a type that is computed here.
extern "C" bool reame_multiply(int type, const char *weights, int rows, int blocks, char *activations, int columns,
                               char *out) {
    using namespace reame;
    return with_type(type, [&](auto of) {
        using Type = decltype(of);
        const size_t weight = blocks * sizeof(typename Type::Weight);
        const size_t activation = blocks * sizeof(typename Type::Activation);
        const size_t column = rows * sizeof(float);
        multiply_alone<Type>({weights, weight, rows, blocks, columns, activations, activation, out, column});
        return true;
    });
}
