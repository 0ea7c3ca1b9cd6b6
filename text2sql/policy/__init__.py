"""Where replies come from: an OpenAI-compatible server, or a model in this process."""

from text2sql.policy.base import (
    ContextOverflow,
    Message,
    Policy,
    PolicyInfo,
    Reply,
    Sampling,
    ToolCall,
)

__all__ = ["ContextOverflow", "Message", "Policy", "PolicyInfo", "Reply", "Sampling", "ToolCall"]
