/** `headgate/client`: a typed client of `/check` over HTTP or over a service binding. */
export { type CallOptions, type Client, createClient, type ServiceClient } from "../client/client.ts";
export { HeadgateError } from "../client/messages.ts";
export type { Fetch } from "../client/http.ts";
export type {
  BatchAnswer,
  BatchInput,
  CheckAnswer,
  CheckInput,
  ForgetInput,
  LimitDecision,
  LookInput,
  Problem,
  ReserveAnswer,
  ReserveInput,
  SettleAnswer,
  SettleInput,
} from "../client/messages.ts";
export type { HttpOptions, ServiceOptions } from "../client/options.ts";
export type { HeadgateService } from "../client/service.ts";
