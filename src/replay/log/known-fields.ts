/** The names that logs give to the fields of a request, in the order in which they are tried. */
import { type LogFieldName, fieldName, nestedName } from "./log-line.ts";

const namesOf = (text: string): readonly LogFieldName[] => text.split(" ").map(fieldName);

export const timeFields = namesOf(
  "time timestamp @timestamp ts datetime date time_iso8601 time_local msec start_time starttime startutc edgestarttimestamp",
);

export const statusFields = namesOf(
  "edgeresponsestatus status status_code statuscode response_status responsestatus downstreamstatus",
);

export const costFields = namesOf("cost units weight");

const addresses =
  "client_ip clientip remote_addr remote_ip remoteaddr remoteip client_address clientaddress clienthost remote_host source_ip";

/** For a log without named key parts. */
export const keyFields = namesOf(`key ip ${addresses} client user user_id userid`);

/** By key part. Cloudflare's own header is the client where a proxy wrote the log. */
export const partFields = {
  ip: namesOf(`cf_connecting_ip http_cf_connecting_ip clientip ip ${addresses} client`),
  method: namesOf("clientrequestmethod method request_method http_method requestmethod request"),
  host: namesOf("clientrequesthost host http_host server_name hostname authority requesthost"),
  path: namesOf(
    "clientrequestpath path request_path requestpath url_path clientrequesturi request_uri uri url request_url requesturl request",
  ),
  country: namesOf("clientcountry country country_code http_cf_ipcountry geoip_country_code"),
  continent: namesOf("continent"),
  asn: namesOf("clientasn asn client_asn"),
  colo: namesOf("edgecolocode colo"),
} as const;

/** Fields with the path and query of a request. */
export const targetFields = namesOf(
  "clientrequesturi request_uri uri url request_url requesturl requestpath path request",
);

/** Fields with the query alone. */
export const queryFields = namesOf("args query_string query");

const ownHeaderFields: Readonly<Record<string, string>> = {
  "user-agent": "clientrequestuseragent user_agent useragent",
  referer: "clientrequestreferer referer referrer",
  host: "clientrequesthost",
};

/** The spellings of a header: `headers.x-api-key`, `http_x_api_key` (nginx), `request_X-Api-Key` (Traefik) and others. */
export function headerFields(header: string): readonly LogFieldName[] {
  const snake = header.replaceAll("-", "_");
  const own = ownHeaderFields[header];
  return [
    nestedName("requestheaders", header),
    nestedName("headers", header),
    nestedName("request_headers", header),
    nestedName(`http_${snake}`),
    nestedName(`request_${header}`),
    nestedName(header),
    nestedName(snake),
    ...(own === undefined ? [] : namesOf(own)),
  ];
}

export const cookieFields = (cookie: string): readonly LogFieldName[] => [
  nestedName("cookies", cookie),
  nestedName(`cookie_${cookie}`),
];
