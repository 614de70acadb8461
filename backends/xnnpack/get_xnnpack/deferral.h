/* Weights that products pack, instead of the load: inserted into xnnpack.h. */
#define EXECUTORCH_C_DEFERRED 1

/// Functions of a cache whose weights may be packed by the third product that reads them instead of
/// at load. `context` is that of the provider; the last five are called by products.
struct ecx_deferral {
  /// Reserves `size` bytes for packed weights, and returns `state_bytes` of state, which live as
  /// long. Returns NULL if the weights have to be packed now.
  void* (*defer)(void* context, const struct xnn_weights_cache_look_up_key* key, size_t size,
                 size_t state_bytes, void** packed);
  /// Returns the state of packed weights, or NULL if they were never deferred.
  void* (*find)(void* context, const void* packed);
  /// Lends memory to a product, which gives it back. Returns NULL if there is none.
  void* (*borrow)(void* context, size_t bytes);
  void (*give_back)(void* context);
  /// A product begins to pack; it has packed this part of the filter (on any thread); it has ended.
  void (*begin)(void* context, const void* packed);
  void (*release)(void* context, const void* filter, size_t bytes);
  void (*end)(void* context, const void* packed);
};
