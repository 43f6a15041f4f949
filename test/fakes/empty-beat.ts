/** The reply to a beat of a control plane that has no rules for the isolate. */
import type { BeatReply } from "../../src/control/protocol.ts";

export const emptyBeat: BeatReply = {
  epoch: 1,
  changed: [],
  storedSeq: 0,
  isWatched: false,
  isTailed: false,
  hasRules: true,
  wantsPolicies: false,
};
