"""Models by formula on real tables: means and sds of all parameters beside long runs of NUTS."""
