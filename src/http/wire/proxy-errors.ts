/** The errors of `Proxy-Status` (RFC 9209, section 2.3) for problem responses. */

export type ProxyError =
  | "destination_unavailable"
  | "http_protocol_error"
  | "http_request_denied"
  | "http_request_error"
  | "http_response_timeout"
  | "proxy_configuration_error"
  | "proxy_internal_error"
  | "proxy_loop_detected";

const proxyErrors = new WeakMap<Response, ProxyError>();

export function noteProxyError(response: Response, error: ProxyError): void {
  proxyErrors.set(response, error);
}

/** Null for every response that is not a problem response. */
export const proxyErrorOf = (response: Response): ProxyError | null => proxyErrors.get(response) ?? null;
