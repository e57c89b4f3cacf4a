// Declarations of the Graph Engine's pass interface, as far as exported passes use it, in our own words. They are
// compiled against, never linked: there is no body here that does anything.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ge {
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;

enum DataType {
  DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT8 = 2, DT_INT32 = 3, DT_UINT8 = 4, DT_INT16 = 6, DT_UINT16 = 7,
  DT_UINT32 = 8, DT_INT64 = 9, DT_UINT64 = 10, DT_DOUBLE = 11, DT_BOOL = 12, DT_BF16 = 27
};

class AscendString {
 public:
  AscendString() = default;
  explicit AscendString(const char *text);
  bool operator==(const char *text) const;
  bool operator==(const AscendString &other) const;
};

class Shape {
 public:
  std::vector<int64_t> GetDims() const;
};

class TensorDesc {
 public:
  Shape GetShape() const;
  DataType GetDataType() const;
};

class Tensor {
 public:
  const uint8_t *GetData() const;
  size_t GetSize() const;
  TensorDesc GetTensorDesc() const;
};

class GNode;
using GNodePtr = std::shared_ptr<GNode>;

class GNode {
 public:
  graphStatus GetType(AscendString &type) const;
  graphStatus GetInputDesc(int32_t slot, TensorDesc &desc) const;
  graphStatus GetOutputDesc(int32_t slot, TensorDesc &desc) const;
  std::pair<GNodePtr, int32_t> GetInDataNodesAndPortIndexs(int32_t slot) const;
  graphStatus GetAttr(const char *name, int64_t &value) const;
  graphStatus GetAttr(const char *name, float &value) const;
  graphStatus GetAttr(const char *name, bool &value) const;
  graphStatus GetAttr(const char *name, AscendString &value) const;
  graphStatus GetAttr(const char *name, std::vector<int64_t> &value) const;
  graphStatus GetAttr(const char *name, Tensor &value) const;
  graphStatus SetAttr(const char *name, int64_t &value);
  graphStatus SetAttr(const char *name, float &value);
  graphStatus SetAttr(const char *name, bool &value);
  graphStatus SetAttr(const char *name, AscendString &value);
  graphStatus SetAttr(const char *name, std::vector<int64_t> &value);
};

class Graph {};
using GraphUniqPtr = std::unique_ptr<Graph>;

namespace es {
class EsTensorHolder {
 public:
  EsTensorHolder() = default;
  EsTensorHolder(std::nullptr_t);
  GNode *GetProducer() const;
};

class EsGraphBuilder {
 public:
  explicit EsGraphBuilder(const char *name);
  EsTensorHolder CreateInput(int64_t index);
  EsTensorHolder CreateConst(const std::vector<int64_t> &value, const std::vector<int64_t> &dims);
  EsTensorHolder CreateScalar(float value);
  EsTensorHolder CreateScalar(int64_t value);
  GraphUniqPtr BuildAndReset(const std::vector<EsTensorHolder> &outputs);
};

EsTensorHolder Const(EsGraphBuilder &builder);
}  // namespace es

namespace fusion {
struct NodeIo {
  GNode node;
  int64_t index;
};

class Pattern {
 public:
  explicit Pattern(Graph &&graph);
  Pattern &CaptureTensor(const NodeIo &tensor);
};
using PatternUniqPtr = std::unique_ptr<Pattern>;

class MatchResult {
 public:
  graphStatus GetCapturedTensor(size_t index, NodeIo &tensor) const;
  std::vector<GNode> GetMatchedNodes() const;
};

class PatternFusionPass {
 public:
  virtual ~PatternFusionPass() = default;

 protected:
  virtual std::vector<PatternUniqPtr> Patterns() = 0;
  virtual bool MeetRequirements(const std::unique_ptr<MatchResult> &match);
  virtual GraphUniqPtr Replacement(const std::unique_ptr<MatchResult> &match) = 0;
};

enum class CustomPassStage { kBeforeInferShape, kAfterInferShape, kAfterBuiltinFusionPass };

class PassRegistration {
 public:
  template <typename Pass>
  static PassRegistration Of(const char *name) {
    static_assert(sizeof(Pass) > 0 && !std::is_abstract<Pass>::value, "a pass defines all that it has to");
    return PassRegistration(name);
  }
  PassRegistration &Stage(CustomPassStage stage);

 private:
  explicit PassRegistration(const char *name);
};
}  // namespace fusion
}  // namespace ge

#define REG_FUSION_PASS(type) \
  static auto type##_registration = ge::fusion::PassRegistration::Of<type>(#type)
